"""The whole comparison on a machine with a GPU, in one command of less than eight minutes.

    python -m examples.gpu prepare KIT              # TVM and nvcc, no GPU: fills KIT and KIT.zip
    python -m examples.gpu measure KIT -o RESULTS   # a GPU and torch; neither TVM nor nvcc
    python -m examples.gpu report RESULTS           # tables in Markdown; TVM, no GPU

With ``--small`` the first two are a check on an emulated GPU. ``KIT`` holds compiled kernels and
networks, these without weights: a seed makes them where they run. Every phase is a ``tvmconv
bench`` that is useful by itself, ends when its time is up, and leaves its file in ``RESULTS``;
``summary.json`` says after each of them what was done, what is missing, and why.
"""

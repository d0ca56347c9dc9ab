"""The whole comparison on a machine with a GPU, in one command of less than eight minutes.

    python -m examples.gpu prepare KIT              # TVM and nvcc, no GPU: fills KIT and KIT.zip
    python -m examples.gpu measure KIT -o RESULTS   # a GPU and torch; neither TVM nor nvcc python
    -m examples.gpu report RESULTS           # tables in Markdown; TVM, no GPU

With ``--small`` the first two are a check on an emulated GPU. ``KIT`` holds compiled kernels and
networks without weights, which a seed makes on the GPU's machine. Every phase is one ``tvmconv
bench run`` with a time limit, and leaves its file in ``RESULTS``. ``summary.json`` says what is
measured, what is missing, and why.
"""

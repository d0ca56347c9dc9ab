"""The page of the papers: claims, and what tvmconv reaches, by the saved files."""

from __future__ import annotations

from docs.generate.papers import direct, ftengine, im2win, quantized, winograd

_HEAD = """# The papers

For researchers. The algorithms of tvmconv come from five papers. Each section lists a paper's
claims, what tvmconv reaches, and a verdict.

```sh
tvmconv bench show docs/results/im2win.json.gz --relative-to im2win,im2win_nchw,torch_im2col
```

!!! note "Conditions"
    The papers use batch sizes from 3 to 128, plain NCHW or NHWC layouts and up to 64 threads.
    Rows with a batch size above 1 have a paper's batch size. There, convolutions read and write
    NCHW. Rows that name one or two threads, or Zen 5, ran on an AMD EPYC (Zen 5), and rows of 16
    threads on an Intel Xeon with AMX, on 2026-11-27.
    Other rows have batch size 1, one thread and FP32, on Intel Cascade Lake, 2026-11-21.
    Arm figures are estimates: executed instructions under QEMU times the cycles of llvm-mca.

| verdict | meaning |
|---|---|
| reproduced | the claim holds here |
| partly | the direction holds, the size or a part does not |
| not reproduced | it does not hold here |
| estimated | the cost of the instructions agrees; no such machine was at hand |
| not tested | no machine or no form of the algorithm for it |
"""
_COMMANDS = """
## Repeat the tables

| file | command |
|---|---|
| [dnn12-nchw](../results/dnn12-nchw.json.gz) | suite `dnn12`, `--batch fit:128 --nchw` |
| [dnn12-nchw-16-threads](../results/dnn12-nchw-16-threads.json.gz) | the same on 16 threads |
| [dnn12-loops](../results/dnn12-loops-16-threads.json.gz) | the same, `--baselines direct_loops` |
| [winograd16-batches](../results/winograd16-batches.json.gz) | suite `winograd16`, `--nchw` |
| [winograd16-16-threads](../results/winograd16-16-threads.json.gz) | the same on 16 threads |
| [vgg16-batches](../results/vgg16-batches.json.gz) | VGG-16, `--batch 1,4,16,64` |
| [sgemm-16-threads](../results/sgemm-16-threads.json.gz) | suite `sgemm`, `--threads 16` |
| [sgemm-zen5](../results/sgemm-zen5.json.gz) | suite `sgemm`, `--threads 1,2` |
| [im2win](../results/im2win.json.gz) | suite `dnn12`, `--stages --cold`, four algorithms |
| [im2win-memory](../results/im2win-memory.json.gz) | the same with `--memory` |
| [dnn12-memory](../results/dnn12-memory.json.gz) | suite `dnn12`, `--batch fit:128 --memory` |
| [im2win-steps](../results/im2win-steps.json.gz) | suite `dnn12`, `im2win_nchw:steps` |
| [alexnet-2012-layers](../results/alexnet-2012-layers.json.gz) | suite `alexnet_2012`, `--stages` |
| [direct-layers](../results/direct-layers.json.gz) | suites `vgg16` and `resnet50` |
| [ftengine-layers](../results/ftengine-layers.json.gz) | suite `ftengine`, `--batch 3 --nchw` |
| [paper-networks](../results/paper-networks.json.gz) | six networks, `--threads 1,2` |
| [poolings](../results/poolings.json.gz) | suite `poolings` |
| [int8-winograd-stages](../results/int8-winograd-stages.json.gz) | suite `quantised_winograd` |
| [integer-products](../results/integer-products.json.gz) | suite `integer_products` |
| [vgg16](../results/vgg16.json.gz) | suite `vgg16`, `--baselines all` |
| [resnet50](../results/resnet50.json.gz) | suite `resnet50`, `--baselines all` |
| [sgemm](../results/sgemm.json.gz) | suite `sgemm`, `--baselines openblas,blis,torch` |
| [ftengine](../results/ftengine.json.gz) | suite `ftengine`, `--target ftengine --estimate` |
| [arm-peers](../results/arm-peers.json.gz) | suite `winograd16`, `--target ft2000plus --estimate` |
| [int8-winograd](../results/int8-winograd.json.gz) | suite `quantised_winograd` |

[Measure the papers](../contributing/measure-the-papers.md) has one command for each table, under
the conditions of the papers.

How the measurements were made, layer by layer, is in the notes: [im2win](../notes/im2win.md),
[direct](../notes/direct.md), [Winograd](../notes/winograd.md), [GEMM](../notes/gemm.md),
[INT8](../notes/int8-measured.md), [estimates for Arm](../notes/arm-estimated.md).
"""


def page() -> str:
    """Return the page."""
    papers = (
        im2win.text(),
        winograd.text(),
        direct.text(),
        ftengine.text(),
        quantized.text(),
    )
    return "".join([_HEAD, *papers, _COMMANDS])

"""The default configuration of direct convolution, with its prefetches of inputs and weights."""

from __future__ import annotations

from tvmconv.algorithms.integer.dwords import widened_shape
from tvmconv.algorithms.integer.wide_weights import widens_weights
from tvmconv.algorithms.padding import LONG_ROW
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.direct_parts import default_part
from tvmconv.costs.cpu.wide_weights import WideTileModel
from tvmconv.machines.record import Machine

# pixels of a single tile from which on a prefetch of each weight costs less than it hides
_FEWEST_PIXELS = 6


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The cheapest tile, its cache block or parts of the reduction, and its prefetches.

    INT8 weights are widened before or in the first tile if that pays.
    """
    if widens_weights(workload, machine):
        for wide in (2, 1):
            model = WideTileModel(workload, machine, wide)
            if model.tiles():
                config = _of_model(model).replace(wide=wide)
                if model.pays(config):
                    return config
    return _of_model(TileModel(workload, machine))


def _of_model(model: TileModel) -> Config:
    oc, oh, ow = model.best_tile()
    kc = default_part(model, oc, oh, ow)
    rows = 0 if kc else model.block(oc, oh, ow)
    fetch_input = int(fetches_input(model))
    config = Config.of(oc=oc, oh=oh, ow=ow, rows=rows, kc=kc, wide=0, fetch_input=fetch_input)
    return Config.of(**config, fetch_weight=int(fetches_weights(model, config)))


def fetches_input(model: TileModel) -> bool:
    """Whether steps prefetch the pixels of the next channel block.

    A small image is in L1, where each prefetch only takes a load's place. Pixels of a long kernel
    are one stream, which the CPU's own prefetchers follow. With prefetches, layers of a few columns
    took 1.02 to 1.13 times as long, and kernels of 64 columns 1.03 times. The copy of widened
    integers is in cache; with prefetches LLVM spilled accumulators (14 % of 3x3).
    """
    w, machine = model.workload, model.machine
    if machine.code.by_lane or widened_shape(w, machine):
        return False
    return model.input_bytes > machine.l1d_bytes // 2 and w.kernel_w < LONG_ROW


def fetches_weights(model: TileModel, config: Config) -> bool:
    """Whether so few tiles use the weights that their arrival is visible.

    Larger kernels use each panel for long. Prefetches help them only with few tiles, and if the
    next panel fits into L2: next to this one, or in its place on Zen 5. Layers of 256 to 512
    channels on 7x7 were then 1.1 to 1.25 times as fast. With AVX2 prefetches cost 2 % on
    ResNet-50, and up to a half if a tile fills the registers, so that the machine disables them.

    The weights of a single tile are one stream, but the CPU's own prefetchers follow it too late.
    With prefetches from memory, layers of 8 to 10 columns took 0.68 to 0.76 of the time. A tile of
    one pixel took 1.5 times as long with its weights in L3. The next part of a reduction arrives
    while the tiles use a part, in 0.91 of the time of a layer.
    """
    machine = model.machine
    if machine.code.by_lane or not machine.code.prefetches_weights:
        return False
    if config.get("kc", 0):
        return True
    oh, ow = config.int("oh"), config.int("ow")
    tiles = model.places(oh, ow)
    panel = 4 * machine.channel_block * config.int("oc") * model.steps
    small = model.taps == 1 or panel <= machine.l2_bytes * machine.code.fetched_panel
    if tiles == 1:
        return oh * ow >= _FEWEST_PIXELS and small and model.weight_bytes > machine.l1d_bytes
    if model.taps > 1:
        return tiles <= 8 and small and model.weight_bytes > machine.l2_bytes
    return tiles <= 64 and model.weight_bytes > machine.l1d_bytes

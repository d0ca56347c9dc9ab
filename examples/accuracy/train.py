"""Train the network of the accuracy experiment: ``python -m examples.accuracy.train``.

Needs torch (``pip install 'tvmconv[train]'``) and a few minutes of one core. The
experiment itself runs from the checkpoint that is beside this file, without torch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import torch
from onnx import ModelProto, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from examples.accuracy.checkpoint import CHECKPOINT, WIDTH, sha256
from examples.accuracy.dataset import CLASSES, TEST, TRAINING, dataset
from examples.networks.resnet import resnet18_cifar

# images are drawn anew for every epoch
EPOCHS, IMAGES = 7, 12_000
BATCH = 64
# test images named after each epoch
WATCHED = 1000
_RATE, _MOMENTUM, _DECAY = 0.1, 0.9, 5e-4


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        # a block begins as its shortcut, which makes the first epochs quick
        nn.init.zeros_(self.bn2.weight)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs, H, W) to (N, outputs, H / stride, W / stride)."""
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """The CIFAR form, with the names that :func:`examples.networks.resnet.resnet18_cifar` gives."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage in range(4):
            blocks = nn.Sequential()
            for stride in (1 if stage == 0 else 2, 1):
                blocks.append(Block(channels, width << stage, stride))
                channels = width << stage
            self.add_module(f"layer{stage + 1}", blocks)
        self.fc = nn.Linear(channels, len(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Images (N, 3, 32, 32) to logits (N, 10)."""
        x = functional.relu(self.bn1(self.conv1(x)))
        for stage in range(4):
            x = self.get_submodule(f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


def train(
    epochs: int = EPOCHS,
    images: int = IMAGES,
    seed: int = 0,
    bfloat16: bool = False,
    step: Callable[[], None] = lambda: None,
) -> ResNet18:
    """A trained network.

    Parameters
    ----------
    epochs, images
        How long to train: epochs of so many new images each.
    seed
        Fixes weights and images.
    bfloat16
        Multiply in bfloat16, which takes 0.6 of the time where the processor can.
    step
        Called after every batch.
    """
    torch.manual_seed(seed)
    model = ResNet18(WIDTH).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(
        model.parameters(), lr=_RATE, momentum=_MOMENTUM, weight_decay=_DECAY, nesterov=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, _RATE, total_steps=epochs * (images // BATCH), pct_start=0.25
    )
    for epoch in range(epochs):
        start = time.process_time()
        x, labels = (torch.from_numpy(a) for a in dataset(TRAINING, images, 1000 * seed + epoch))
        x = x.contiguous(memory_format=torch.channels_last)
        losses = []
        model.train()
        for chosen in torch.randperm(images)[: images // BATCH * BATCH].split(BATCH):
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                loss = functional.cross_entropy(model(x[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
            step()
        print(
            f"epoch {epoch + 1:2} of {epochs}: loss {sum(losses) / len(losses):.4f},"
            f" {accuracy(model, WATCHED):.2%} of test images right,"
            f" {time.process_time() - start:.0f} s of processor time",
            flush=True,
        )
    return model


def accuracy(model: ResNet18, count: int) -> float:
    """Share of so many test images that the model names rightly."""
    model.eval()
    images, labels = dataset(TEST, count)
    with torch.no_grad():
        logits = [model(part) for part in torch.from_numpy(images).split(250)]
    return float((torch.cat(logits).argmax(1).numpy() == labels).mean())


def exported(model: ResNet18) -> ModelProto:
    """The same network in ONNX, for one image."""
    network = resnet18_cifar(width=WIDTH / 64, classes=len(CLASSES))
    state = model.state_dict()
    for tensor in network.graph.initializer:
        tensor.CopyFrom(
            numpy_helper.from_array(state[tensor.name].contiguous().numpy(), tensor.name)
        )
    return network


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.accuracy.train", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=CHECKPOINT)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--images", type=int, default=IMAGES, help="new images of an epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bfloat16", action="store_true", help="multiply in bfloat16")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    model = train(options.epochs, options.images, options.seed, options.bfloat16)
    onnx.save(exported(model), options.output)
    print(f"{options.output}: sha256 {sha256(options.output)}")


if __name__ == "__main__":
    main()

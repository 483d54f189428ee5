"""Which elements are dropped: a hash of seed and element index in integer operations, here of tensors.

The same bits as in hash.h and triton.py. There the words have 32 bits and products wrap round; here they are numbers
from 0 on in 64 bits, and no product leaves these: a compiler takes what overflows for what cannot be.
"""

import torch

BITS = 8
WORD = 2**32 - 1
STEP = 0x9E3779B9


def signed(factor: int) -> int:
    """The same factor to the lowest 32 bits of a product, but below 2**31 in size."""
    return factor - 2**32 if factor >= 2**31 else factor


def spread(word: int) -> int:
    """The sum's high bits depend on all of the word, its low bits on both halves."""
    return word * signed(STEP) + word // 2**16 * 0x7FEB352D


def keys(seed: int) -> tuple[int, int]:
    """The two words that the hash mixes in; no two seeds have the same.

    Without bitwise operations: torch.compile knows these alone where it takes the seed for a symbol.
    """
    second = (seed // 2**32 + spread(seed % 2**32)) % 2**32
    return (seed + spread(second)) % 2**32, second


def mix(h: torch.Tensor, shift: int, factor: int) -> None:
    """`h = (h ^ h >> shift) * factor`, in place."""
    h ^= h >> shift
    h *= signed(factor)
    h &= WORD


def kept(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """Bool in the shape of x: which of its elements are kept. They are counted row by row, whatever the strides."""
    first, second = keys(seed)
    h = torch.arange(x.numel(), device=x.device)
    h *= STEP
    h += first
    h &= WORD
    mix(h, 17, 0xED5AD4BB)
    h ^= second
    mix(h, 11, 0xAC4C1B51)
    mix(h, 15, 0x31848BAB)
    return (h >= int(p * 2**32)).reshape(x.shape)


def packed(keep: torch.Tensor) -> torch.Tensor:
    """Eight elements a byte, the first in the lowest bit: (ceil(elements / 8),), uint8."""
    bits = torch.nn.functional.pad(keep.flatten().to(torch.uint8), (0, -keep.numel() % BITS))
    places = torch.arange(BITS, dtype=torch.uint8, device=keep.device)
    return (bits.reshape(-1, BITS) << places).sum(1, dtype=torch.uint8)


def unpacked(mask: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """What `packed` was given."""
    places = torch.arange(BITS, dtype=torch.uint8, device=mask.device)
    bits = (mask[:, None] >> places) & 1
    return bits.flatten()[: shape.numel()].reshape(shape).bool()

"""settings and opened splits -> the order, and the buffers that read it; what cannot be is refused here."""

from collections.abc import Mapping

from flatmix.errors import StoreError
from flatmix.loader.buffers import Buffers
from flatmix.loader.host import RowFormat
from flatmix.loader.memory import resolve_budget
from flatmix.loader.rows import DocumentRows, PackedRows, RowSource
from flatmix.order import Order, Phases, Timeline
from flatmix.order.windows import window_count
from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams
from flatmix.store import Split

Splits = Mapping[str, Split]


def first_timeline(params: FlatTokensParams, shape: TokenBatchParams, given: Timeline | None) -> Timeline:
    """The timeline that a user gave, or one batch size from the start. ValueError where it ends with another batch."""
    timeline = given or Timeline(((0, 0, shape.batch),), params.streams)
    if timeline.entries[-1][2] != shape.batch:
        raise ValueError(
            f"batch is {shape.batch}, and {timeline.entries[-1][2]} in the timeline's last entry: they must be equal"
        )
    return timeline


def row_format(params: FlatTokensParams, shape: TokenBatchParams) -> RowFormat:
    """How rows are read. ValueError for a stride between rows that are whole documents."""
    if not params.sequence_packing and shape.stride is not None:
        raise ValueError(
            f"stride={shape.stride} with sequence_packing=False: a row is a document; leave the stride out"
        )
    return RowFormat(shape.len, shape.extra_tokens, counted=not params.sequence_packing)


def check_ids(splits: Splits, vocab_size: int | None) -> None:
    """StoreError where a language has ids that a vocabulary of that size has not."""
    for name, split in splits.items():
        if vocab_size is not None and split.max_token_id >= vocab_size:
            raise StoreError(
                f"language {name!r} has ids up to {split.max_token_id}, and vocab_size is {vocab_size}: take at least "
                f"{split.max_token_id + 1}, or a store made with the model's tokenizer"
            )


def phases_by_slot(mixture: MixtureParams, timeline: Timeline) -> Phases:
    """The later weights of the mixture, from their slots on.

    ValueError where a phase would begin at a slot that an earlier step takes: its weights would change that step.
    """
    for step, _ in mixture.phases or ():
        slot, taken = timeline.first_slot(step), max((end for _, _, end in timeline.spans(step)), default=0)
        if slot < taken:
            raise ValueError(
                f"the phase of step {step} begins at slot {slot}, and earlier steps take slots up to {taken - 1}: "
                f"where the timeline shows slots again, let a phase begin with a step that takes new ones"
            )
    return [(timeline.first_slot(step), weights) for step, weights in mixture.phases or ()]


def make_order(
    splits: Splits, params: FlatTokensParams, mixture: MixtureParams, shape: TokenBatchParams, timeline: Timeline
) -> Order:
    """The order of the run. ValueError for a language of some weight without one window, and as `Order`."""
    return Order(
        {name: _windows(split, params, mixture, shape) for name, split in splits.items()},
        mixture.weights,
        phases_by_slot(mixture, timeline),
        seed=params.seed,
        streams=params.streams,
        timeline=timeline.entries,
        selector=mixture.selector,
        sequences_per_read_block=params.sequences_per_read_block,
        read_blocks_per_shuffle_buffer=params.read_blocks_per_shuffle_buffer,
        window_tokens=shape.window,
        keys=mixture.keys,
    )


def _windows(split: Split, params: FlatTokensParams, mixture: MixtureParams, shape: TokenBatchParams) -> int:
    name = split.language
    weighted = any(weights.get(name) for weights in (mixture.weights, *(w for _, w in mixture.phases or ())))
    if not params.sequence_packing:
        if weighted and not split.documents:
            raise ValueError(f"language {name!r} has no documents: leave it out of the weights")
        return split.documents
    windows = window_count(split.tokens, shape.window, shape.window_stride)
    if weighted and not windows:
        raise ValueError(
            f"language {name!r} has {split.tokens} tokens, and one window needs {shape.window}: shorten the windows, "
            f"or leave the language out of the weights"
        )
    return windows


def make_buffers(
    splits: Splits, order: Order, params: FlatTokensParams, shape: TokenBatchParams, streams: frozenset[int]
) -> Buffers:
    """Readers of the languages that have a weight, and room for the buffers of the given streams."""
    form, opened = row_format(params, shape), list(splits.values())
    sources: dict[int, RowSource] = {}
    for index in order.shuffles:
        split = opened[index]
        reader = split.reader(params.threads)
        if form.counted:
            sources[index] = DocumentRows(split, reader, form.window, params.threads)
        else:
            sources[index] = PackedRows(reader, order.shuffles[index].windows, form.window, shape.window_stride)
    budget = resolve_budget(params.memory_budget)
    return Buffers(sources, order, streams, form.window, form.words, shape.batch, budget)

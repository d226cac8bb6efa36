"""The loops over rows of the loader, compiled: the interpreter's lock released, memory that the caller owns.

`cells` says, for each section of a shuffle buffer that is held, where in the pool each of its rows lies: a cell's
number, MISSING before the row has been read, or USED after the order has passed it. Sections lie in `cells` one after
another, two for each lane, from `base[lane, side]` on; `owner[lane, side]` is the number of the section there.
"""

import numpy as np

from flatmix.order.kernels import compiled

MISSING = -1
USED = -2

_U0 = np.uint32(0)
_U1 = np.uint32(1)


@compiled
def place_rows(language, stream, occurrence, lanes, sizes, lane_sizes, lane, section, offset):
    """Fills lane, section and offset of each row, int64[rows]; lane is -1 where the row is in none.

    lanes[language, stream] is a lane or -1; sizes[language] are windows of a stream's epoch, windows of a buffer and
    buffers of an epoch; lane_sizes[lane] are windows of a section, sections of a buffer and buffers of a section.
    """
    for i in range(len(language)):
        own = lanes[language[i], stream[i]]
        lane[i] = own
        if own < 0:
            continue
        epoch_windows, buffer_windows, buffers = sizes[language[i]]
        size, parts, together = lane_sizes[own]
        epoch = occurrence[i] // epoch_windows
        buffer = epoch * buffers + (occurrence[i] - epoch * epoch_windows) // buffer_windows
        group = buffer // together
        first = group * together  # its first buffer
        rest = occurrence[i] - first // buffers * epoch_windows - first % buffers * buffer_windows
        part = rest // size if parts > 1 else 0
        section[i] = group * parts + part
        offset[i] = rest - part * size


@compiled
def take(rows, lane, section, offset, owner, base, cells, pool, out, missing):
    """Copies those of the given rows that the pool holds to their place in `out`, and lists the others in `missing`:
    returns their number."""
    count = 0
    for i in rows:
        cell = MISSING
        if lane[i] >= 0:
            for side in range(2):
                if owner[lane[i], side] == section[i]:
                    cell = cells[base[lane[i], side] + offset[i]]
        if cell >= 0:
            for j in range(out.shape[1]):  # at twice the speed of an assignment of slices
                out[i, j] = pool[cell, j]
        else:
            missing[count] = i
            count += 1
    return count


@compiled
def mark_used(rows, lane, section, offset, owner, base, cells):
    """Leaves out of the blocks to come those of the given rows that were missing: they have been read alone."""
    for i in rows:
        for side in range(2):
            if lane[i] >= 0 and owner[lane[i], side] == section[i]:
                entry = base[lane[i], side] + offset[i]
                if cells[entry] == MISSING:
                    cells[entry] = USED


@compiled
def pass_over(cells, start, stop, lane, free, free_count, held):
    """Gives back the cells of the entries start .. stop - 1. Returns how many cells are free then."""
    for entry in range(start, stop):
        if cells[entry] >= 0:
            free[free_count] = cells[entry]
            free_count += 1
            held[lane] -= 1
        cells[entry] = USED
    return free_count


@compiled
def release(lane, section, offset, owner, base, length, cells, free, free_count, held, reached, moved):
    """Gives back the cells of rows that the order has passed. Returns how many cells are free then.

    reached[lane, side] becomes the offset after the last such row of a section, and moved[lane] is set for a lane that
    has come to a section's end, or to a section that is not held.
    """
    for i in range(len(lane)):
        own = lane[i]
        if own < 0:
            continue
        known = False
        for side in range(2):
            if owner[own, side] == section[i]:
                known = True
                entry = base[own, side] + offset[i]
                free_count = pass_over(cells, entry, entry + 1, own, free, free_count, held)
                reached[own, side] = offset[i] + 1
                if reached[own, side] == length[own, side]:
                    moved[own] = True
        if not known:
            moved[own] = True
    return free_count


@compiled
def count_missing(cells, base, offsets):
    """How many rows of a section, at the given offsets, are still to be read."""
    count = 0
    for offset in offsets:
        count += cells[base + offset] == MISSING
    return count


@compiled
def store(block, windows, offsets, cells, base, lane, pool, free, free_count, held):
    """Copies the rows of a block that are still to come from block[window] to free cells of the pool. Returns how many
    cells are free then."""
    for i in range(len(offsets)):
        entry = base + offsets[i]
        if cells[entry] == MISSING:
            free_count -= 1
            cell = free[free_count]
            window = windows[i]
            for j in range(pool.shape[1]):
                pool[cell, j] = block[window, j]
            cells[entry] = cell
            held[lane] += 1
    return free_count


@compiled
def sort_by_block(places, block_windows, first, offsets, windows, starts):
    """The places of a shuffle buffer by their read blocks, those before the first left out: starts[b] .. starts[b + 1]
    are those of block b in `offsets` (into `places`, rising) and `windows` (within the block)."""
    starts[:] = 0
    for offset in range(first, len(places)):
        starts[np.int64(places[offset]) // block_windows + 1] += 1
    for block in range(len(starts) - 1):
        starts[block + 1] += starts[block]
    filled = starts[:-1].copy()
    for offset in range(first, len(places)):
        place = np.int64(places[offset])
        block = place // block_windows
        offsets[filled[block]] = offset
        windows[filled[block]] = place - block * block_windows
        filled[block] += 1


@compiled
def most_urgent(todo, unread, due, turn, reached, held, reserved, size, ahead, weight, spare, overdraft):
    """The lane whose next block is needed first, of those that may read one; -1 where none may.

    todo: rows of the lane's next block, 0 for none; unread: of all its blocks to come. A lane holds `size` rows at
    most, and more only to finish a section in time, while there are `spare` cells and the lanes together are not more
    than `overdraft` over theirs.
    """
    over_all = 0
    for lane in range(len(todo)):
        over_all += max(0, held[lane] + reserved[lane] - size[lane])
    best, least = -1, np.inf
    for lane in range(len(todo)):
        if todo[lane] == 0 or todo[lane] > spare:
            continue
        over = held[lane] + reserved[lane] + todo[lane] - size[lane]
        if over > 0 and (unread[lane] > ahead[lane] or over_all + over > overdraft):
            continue
        steps = (due[lane] - reached[lane, turn[lane]]) / weight[lane]
        if steps < least:
            best, least = lane, steps
    return best


@compiled
def decode(rows, extra, counted, inputs, targets, is_seq_start, loss_mask):
    """uint32[rows, words] -> the arrays of a batch, as `row_fields` says, in one pass."""
    length = targets.shape[1]
    for i in range(rows.shape[0]):
        row = rows[i]
        own = row[extra : extra + length]
        for j in range(length):  # apart from the inputs, so that the processor does many tokens at once
            targets[i, j] = own[j] >> _U1
            is_seq_start[i, j] = own[j] & _U1 == _U1
            loss_mask[i, j] = True
        for j in range(1, length):
            inputs[i, j] = (own[j - 1] >> _U1) * (_U1 - (own[j] & _U1))
        if extra:
            inputs[i, 0] = (row[extra - 1] >> _U1) * (_U1 - (own[0] & _U1))
        else:
            inputs[i, 0] = _U0
            loss_mask[i, 0] = is_seq_start[i, 0]
        if counted:
            for j in range(max(0, np.int64(row[len(row) - 1]) - extra), length):
                loss_mask[i, j] = is_seq_start[i, j]

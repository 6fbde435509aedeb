"""Waiting for the next batch of a torch DataLoader, as a phase of the calling thread."""

import functools


def install(session, torch):
    """Stamps the time that `next()` takes on iterators of torch.utils.data.DataLoader."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    original = _BaseDataLoaderIter.__next__
    spans, phase = session.spans, session.phase("dataload")

    @functools.wraps(original)
    def __next__(self):
        if not spans.enter(phase):
            return original(self)
        try:
            return original(self)
        finally:
            spans.leave(phase)

    session.patches.set(_BaseDataLoaderIter, "__next__", __next__)

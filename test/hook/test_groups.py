import zlib

import pytest
from picket_hook.groups import ranks_text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([3], "3"),
        ([0, 1], "0-1"),
        ([0, 8], "0,8"),
        (list(range(8, 16)), "8-15"),
        (list(range(1, 1024, 8)), "1-1017/8"),
        ([0, 1, 4, 5], "0,1,4,5"),
        ([1, 2, 5, 11, 23, 47, 95], f"#{zlib.crc32(b'1,2,5,11,23,47,95'):08x}"),
    ],
)
def test_ranks_are_told_shortly(ranks, text):
    assert ranks_text(ranks, 12) == text

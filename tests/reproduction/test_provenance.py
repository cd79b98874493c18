"""Where results come from, without the folders of whoever made them."""

import pytest
from reproduction.provenance import provenance


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("nopg reproduce all --out results", "nopg reproduce all --out results"),
        ("nopg reproduce all --out /home/me/out", "nopg reproduce all --out out"),
        (
            "nopg reproduce all --data=/mnt/a/car.npz",
            "nopg reproduce all --data=car.npz",
        ),
        ("nopg reproduce all --methods 'DDPG offline,BC'",) * 2,
    ],
)
def test_paths_from_the_root_keep_their_last_name_alone(typed: str, kept: str) -> None:
    assert provenance(typed)["command"] == kept

"""Where results come from, without the folders of whoever made them."""

import pytest
from reproduction.provenance import provenance


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("python -m reproduction all --out results", "python -m reproduction all --out results"),
        ("python -m reproduction all --out /home/me/out", "python -m reproduction all --out out"),
        (
            "python -m reproduction all --data=/mnt/a/car.npz",
            "python -m reproduction all --data=car.npz",
        ),
        ("python -m reproduction all --methods 'DDPG offline,BC'",) * 2,
    ],
)
def test_paths_from_the_root_keep_their_last_name_alone(typed: str, kept: str) -> None:
    assert provenance(typed)["command"] == kept

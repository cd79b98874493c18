"""The page of a policy that acts on the past: its columns are named."""

from pathlib import Path

import nopg
from tests.delayed_system import delayed_data


def test_past_columns_are_on_the_page(tmp_path: Path) -> None:
    data = delayed_data().with_history(observations=1, actions=1)
    policy = nopg.NOPG(gamma=0.9, hidden=(8,)).fit(data, n_updates=2, progress=False)
    nopg.write_report(policy, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "level-level[t-1]" in page
    assert "pump[t-1]" in page

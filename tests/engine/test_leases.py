"""How long a process is taken to live without a sign of it: what `lease=` takes, and what it refuses at once."""

from datetime import timedelta

import pytest

import assentry
from assentry.errors import GuardError


@pytest.mark.parametrize(
    ("lease", "says"),
    [
        (8, r"lease=8: lease must be a positive timedelta, such as timedelta\(seconds=8\)"),
        (0.5, r"lease=0.5: .*such as timedelta\(seconds=0.5\)"),
        (-1, r"lease=-1: .*such as timedelta\(seconds=60\)"),
        (float("inf"), r"lease=inf: .*such as timedelta\(seconds=60\)"),
        (float("nan"), r"lease=nan: .*such as timedelta\(seconds=60\)"),
        (True, r"lease=True: .*such as timedelta\(seconds=60\)"),
        ("8s", r'lease="8s": .*such as timedelta\(seconds=60\)'),
        (None, r"lease=None: .*such as timedelta\(seconds=60\)"),
        (timedelta(), r"lease=timedelta\(seconds=0\): lease must be a positive timedelta"),
        (-timedelta(seconds=3), r"lease=timedelta\(seconds=-3\): lease must be a positive timedelta"),
    ],
)
def test_a_lease_that_is_no_duration_is_refused_where_it_is_written(tmp_path, lease, says):
    file = tmp_path / "assentry.db"
    with pytest.raises(GuardError, match=says):
        assentry.open(file, lease=lease)
    assert not file.exists()
    with pytest.raises(GuardError, match=says):
        assentry.connect("http://127.0.0.1:9", "nobody", lease=lease)


@pytest.mark.parametrize("lease", [timedelta(milliseconds=999), timedelta(minutes=10, seconds=1)])
def test_behind_a_server_a_lease_is_what_servers_take(lease):
    with pytest.raises(GuardError, match=r"behind a server, lease must be between 1 second and 10 minutes"):
        assentry.connect("http://127.0.0.1:9", "nobody", lease=lease)

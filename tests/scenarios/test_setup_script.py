"""scripts/setup: the first checkout on a machine installs, those after it copy what that one kept."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = """\
#!/bin/sh
[ "$1" = -m ] || exec python3 "$@"
mkdir -p .venv/bin .venv/lib/python3.11/site-packages
echo "home of $PWD" > .venv/pyvenv.cfg
echo "finds $PWD/compiler" > .venv/lib/python3.11/site-packages/gangplan.pth
printf '#!/bin/sh\\n# of %s\\necho installed >> ../installed\\n' "$PWD/.venv" > .venv/bin/pip
chmod +x .venv/bin/pip
"""
"""A Python whose environments have a pip that only counts its calls."""

pytestmark = pytest.mark.slow


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "python").write_text(PYTHON)
        (folder / "python").chmod(0o755)

    def checkout(self, name: str, dependencies: str = "[project]\n", tools: str = "") -> Path:
        made = self.folder / name
        (made / "scripts").mkdir(parents=True, exist_ok=True)
        for script in ("setup", "python"):
            shutil.copy(ROOT / "scripts" / script, made / "scripts" / script)
        (made / "pyproject.toml").write_text(f"{dependencies}[tool.pytest]\n{tools}")
        (made / "constraints.txt").write_text("click==8.2\n")
        return made

    def set_up(self, checkout: Path, *options: str) -> int:
        """How often anything was installed so far."""
        variables = {"PYTHON": str(self.folder / "python"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        subprocess.run([checkout / "scripts" / "setup", "dev", *options], env={**os.environ, **variables}, check=True)
        return len((self.folder / "installed").read_text().splitlines())


def test_a_checkout_copies_the_environment_that_an_earlier_one_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    first = machine.checkout("first")
    assert machine.set_up(first) == machine.set_up(first) == 1
    assert machine.set_up(machine.checkout("before-it-is-kept")) == 2
    assert machine.set_up(first, "--keep") == 2
    second = machine.checkout("second", tools="other settings of a tool\n")
    assert machine.set_up(second) == machine.set_up(second) == 2
    for name in ("pyvenv.cfg", "bin/pip", "lib/python3.11/site-packages/gangplan.pth"):
        assert str(second) in (second / ".venv" / name).read_text()
        assert str(first) in (first / ".venv" / name).read_text()


def test_other_versions_are_installed_and_leave_what_is_kept_as_it_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.set_up(machine.checkout("first"), "--keep")
    second = machine.checkout("second")
    assert machine.set_up(second) == 1
    machine.checkout("second", dependencies="[project] # another\n")
    assert machine.set_up(second, "--keep") == 2
    assert machine.set_up(machine.checkout("third")) == 2
    assert machine.set_up(machine.checkout("fourth", dependencies="[project] # another\n")) == 2


def test_few_environments_are_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for at in range(5):
        machine.set_up(machine.checkout(f"checkout-{at}", dependencies=f"[project] # {at}\n"), "--keep")
    assert len(list((tmp_path / "cache" / "gangplan" / "environments").iterdir())) == 3


@pytest.mark.parametrize(("configured", "chosen"), [("--enable-optimizations", "python3"), ("", "/usr/bin/python3")])
def test_a_python_without_optimizations_gives_way_to_the_distributions(
    configured: str, chosen: str, tmp_path: Path
) -> None:
    """A python3 on the PATH that is like the distribution's, but for how it says that it was configured."""
    fake = tmp_path / "python3"
    told = f'import sys, sysconfig; sys.base_prefix = "/opt"; sysconfig.get_config_var = lambda _: "{configured}"'
    fake.write_text(f"#!/bin/sh\nexec /usr/bin/python3 -c '{told};'\"$2\"\n")
    fake.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert subprocess.check_output([ROOT / "scripts" / "python"], env=variables, text=True).strip() == chosen
    variables["PYTHON"] = "python3.12"
    assert subprocess.check_output([ROOT / "scripts" / "python"], env=variables, text=True).strip() == "python3.12"

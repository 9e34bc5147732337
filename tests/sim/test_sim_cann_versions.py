"""Which functions a CANN version lacks."""

from __future__ import annotations

import pytest

from npu_sim.cann_versions import missing_functions, parse_version, version_script


@pytest.mark.parametrize(
    ("version", "lacks", "has"),
    [
        ("8.0.0", "aclmdlRICaptureBegin", "aclrtMalloc"),
        ("8.1.RC1", "aclmdlRIDebugJsonPrint", "aclmdlRICaptureBegin"),
        ("8.5.0", "aclmdlRICondHandleCreate", "aclrtValueWait"),
        ("9.0.0", "aclmdlRIGetId", "aclmdlRIDebugJsonPrint"),
    ],
)
def test_a_version_lacks_what_came_later(version: str, lacks: str, has: str) -> None:
    assert lacks in missing_functions(version)
    assert has not in missing_functions(version)


def test_the_newest_version_lacks_nothing() -> None:
    assert missing_functions("9.1.0") == []
    assert missing_functions("10.0.0") == []


@pytest.mark.parametrize("text", ["", "new", "8", "8.x", "99999.1"])
def test_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="^" + text):
        parse_version(text)


def test_the_version_script_hides_the_names() -> None:
    assert "local: a; b;" in version_script(["a", "b"])

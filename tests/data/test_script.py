"""The script of a text."""

import pytest

from tfmr.data.script import main_script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("A brave queen", "Latin"),
        ("Überfluß à côté", "Latin"),
        ("ＡＢＣ full width", "Latin"),
        ("Это яблоко, e.g. this", "Cyrillic"),
        ("Это", "Cyrillic"),
        ("여왕이 사과 셋을 산다", "Hangul"),
        ("東京タワーは高い", "Han and kana"),
        ("这是苹果", "Han and kana"),
        ("ﾃｽﾄ", "Han and kana"),
        ("הספר", "Hebrew"),
        ("المكتبة", "Arabic"),
        ("किताब", "Devanagari"),
        ("Ωμέγα", "Greek"),
        ("é, 12 + 3 = 15 €!", "Latin"),
        ("12 + 3 = 15 €!", ""),
        ("", ""),
    ],
)
def test_the_script_of_most_letters(text: str, script: str) -> None:
    assert main_script(text) == script

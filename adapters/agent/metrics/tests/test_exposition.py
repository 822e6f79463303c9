from adapters.agent.metrics.exposition import Family, Sample, render


def test_a_label_cannot_break_its_line() -> None:
    text = render([Family("a", "b", (Sample({"x": 'q"\\\n'}, 1),)), Family("none", "c", ())])

    assert text == '# HELP a b\n# TYPE a gauge\na{x="q\\"\\\\\\n"} 1\n'

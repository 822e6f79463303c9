from adapters.node.metrics.exposition import Family, Sample, render


def test_a_label_cannot_end_its_line() -> None:
    told = render([Family("a", "b", (Sample({"x": 'q"\\\n'}, 1),)), Family("none", "c", ())])

    assert told == '# HELP a b\n# TYPE a gauge\na{x="q\\"\\\\\\n"} 1\n'

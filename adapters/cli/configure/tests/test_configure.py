"""What the options do, and what is refused with field, value and remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from adapters.cli.main import app

KUBE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
VOLCANO = "tiers:\n- plugins:\n  - name: gang\n"
ALL = ("kube-scheduler", "koord-scheduler", "vc-scheduler")
GIVEN = {"kube-scheduler": KUBE, "koord-scheduler": KUBE, "vc-scheduler": VOLCANO}


def run(scheduler: str, *options: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["configure", scheduler, *options], input=stdin)


def made(scheduler: str, *options: str, stdin: str = "") -> Any:
    result = run(scheduler, *options, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return yaml.safe_load(result.stdout)


def refused(scheduler: str, *options: str, stdin: str = "") -> str:
    result = run(scheduler, *options, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("dragoman: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("scheduler", ALL)
def test_a_config_map_is_given_back_as_one(scheduler: str) -> None:
    holder = {
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {"a": GIVEN[scheduler], "b": "c"},
    }

    found = made(scheduler, stdin=yaml.safe_dump(holder))

    assert (found["metadata"], found["data"]["b"]) == ({"name": "x"}, "c")
    assert yaml.safe_load(found["data"]["a"]) == made(scheduler, stdin=GIVEN[scheduler])


def test_other_documents_of_a_stream_stay_to_the_byte() -> None:
    before, after = "# mine\na:   {b: [1,2]}\n", "kind:   Secret # x\n"

    result = run("kube-scheduler", stdin=f"{before}---\n{KUBE}---\n{after}")

    assert result.stdout.startswith(f"{before}---\n")
    assert result.stdout.endswith(f"---\n{after}")


def test_comments_order_and_quotes_stay() -> None:
    text = f'# top\n{KUBE}profiles: # mine\n- schedulerName: "a" # b\n'

    result = run("kube-scheduler", stdin=text)

    assert text in result.stdout


def test_a_file_is_read_and_diff_prints_the_change_alone(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(f"{KUBE}profiles:\n    - schedulerName: a\n")

    lines = run("kube-scheduler", "-f", str(file), "--diff").stdout.splitlines()

    assert lines[0] == f"--- {file}"
    assert all(line[0] in "+ @" for line in lines[1:])


def test_diff_of_what_has_it_all_is_empty() -> None:
    once = run("kube-scheduler", stdin=KUBE).stdout

    assert run("kube-scheduler", "--diff", stdin=once).stdout == ""


def test_the_address_is_the_service_in_its_namespace_or_what_is_given() -> None:
    def url(*options: str, scheduler: str = "kube-scheduler", stdin: str = KUBE) -> Any:
        return made(scheduler, *options, stdin=stdin)["extenders"][-1]["urlPrefix"]

    assert url() == "http://dragoman.dragoman-system.svc:9595/extender"
    assert url("--namespace", "gpu") == "http://dragoman.gpu.svc:9595/extender"
    assert url("--url", "http://10.96.7.7:9595/") == "http://10.96.7.7:9595/extender"
    once = run("kube-scheduler", "--url", "http://10.96.7.7:9595", stdin=KUBE).stdout
    assert url(stdin=once) == "http://10.96.7.7:9595/extender"


def test_with_authorities_the_scheduler_verifies_tls(tmp_path: Path) -> None:
    pem = tmp_path / "ca.crt"
    pem.write_text("-----BEGIN CERTIFICATE-----\n")
    address = ("--url", "https://dragoman:9443")

    by_path = made("kube-scheduler", *address, "--ca-file", "/ca.crt", stdin=KUBE)["extenders"]
    by_data = made("kube-scheduler", *address, "--ca-data", str(pem), stdin=KUBE)["extenders"]

    content = {"caData": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="}
    assert [row["enableHTTPS"] for row in by_path] == [True, True]
    assert [row["tlsConfig"] for row in by_path] == [{"caFile": "/ca.crt"}] * 2
    assert [row["tlsConfig"] for row in by_data] == [content] * 2


def test_without_authorities_https_is_verified_by_the_machines_own() -> None:
    # enableHTTPS without an authority would make the scheduler verify nothing.
    found = made("kube-scheduler", "--url", "https://dragoman:9443", stdin=KUBE)["extenders"]

    assert not any({"enableHTTPS", "tlsConfig"} & entry.keys() for entry in found)


def test_kube_scheduler_asks_as_its_version_needs_it() -> None:
    """Up to 1.37 its preemption finds no victim where its own sums are enough."""

    def verbs(*options: str, stdin: str = KUBE) -> set[str]:
        rows = made("kube-scheduler", *options, stdin=stdin)["extenders"]
        return {row["filterVerb"] for row in rows}

    later = run("kube-scheduler", "--kubernetes-version", "v1.38.1", stdin=KUBE).stdout

    assert verbs() == verbs("--kubernetes-version", "1.37") == {"filter"}
    assert verbs(stdin=later) == verbs("--kubernetes-version", "2.0") == {"filter/1.38"}
    assert verbs("--kubernetes-version", "1.37", stdin=later) == {"filter"}


def test_what_the_user_chose_in_our_entries_stays() -> None:
    given = made("kube-scheduler", stdin=KUBE)
    shares, plain = given["extenders"]
    shares |= {"weight": 9, "httpTimeout": "20s", "ignorable": True}
    shares["managedResources"].append({"name": "example.com/mine"})
    plain |= {"weight": 1, "ignorable": False}
    plain["managedResources"].append({"name": "example.com/gpu"})

    shares, plain = made("kube-scheduler", stdin=yaml.safe_dump(given))["extenders"]

    assert (shares["weight"], shares["httpTimeout"], shares["ignorable"]) == (9, "20s", False)
    assert shares["managedResources"][-1] == {"name": "example.com/mine"}
    assert (plain["weight"], plain["httpTimeout"], plain["ignorable"]) == (1, "5s", True)
    assert plain["managedResources"][-1] == {"name": "example.com/gpu"}


def test_what_deviceshare_chose_stays_where_the_service_reads_it() -> None:
    given = (
        "tiers:\n- plugins:\n  - name: deviceshare\n    arguments: {1e100: x, 7: y,"
        " deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: spread,"
        " deviceshare.GPUExclusiveRules: [{app: a}]}\n"
    )

    def kept(text: str, *options: str) -> dict[str, Any]:
        (row,) = made("vc-scheduler", *options, stdin=text)["tiers"][0]["plugins"]
        arguments = row["arguments"].items()
        return {key: value for key, value in arguments if key.startswith("deviceshare.")}

    first = run("vc-scheduler", stdin=given)
    changed = first.stdout.replace("SchedulePolicy: spread", "SchedulePolicy: binpack")

    chosen = {
        "deviceshare.SchedulePolicy": "spread",
        "deviceshare.GPUExclusiveRules": [{"app": "a"}],
    }
    assert (kept(given), first.stderr.count("no longer")) == (chosen, 0)
    assert kept(changed)["deviceshare.SchedulePolicy"] == "binpack"


def test_entries_of_an_extender_whose_names_are_numbers_stay() -> None:
    first = run("kube-scheduler", stdin=KUBE).stdout
    given = first.replace("  nodeCacheCapable:", "  7: y\n  nodeCacheCapable:", 1)

    assert made("kube-scheduler", stdin=given)["extenders"][0][7] == "y"


def test_volcanos_plugin_moves_to_the_first_tier() -> None:
    body = made("vc-scheduler", stdin=f"{VOLCANO}- plugins:\n  - name: drf\n")
    body["tiers"][1]["plugins"].append(body["tiers"][0]["plugins"].pop())

    again = made("vc-scheduler", stdin=yaml.safe_dump(body))

    assert [[row["name"] for row in tier["plugins"]] for tier in again["tiers"]] == [
        ["gang", "extender"],
        ["drf"],
    ]


def test_what_was_changed_after_dragoman_set_it_is_left_and_noted() -> None:
    once = run("kube-scheduler", stdin=KUBE).stdout.replace(
        "percentageOfNodesToScore: 100", "percentageOfNodesToScore: 70"
    )

    result = run("kube-scheduler", "--undo", stdin=once)

    assert yaml.safe_load(result.stdout)["percentageOfNodesToScore"] == 70
    assert "note: percentageOfNodesToScore: was changed after Dragoman set it" in result.stderr


def test_undo_of_a_file_without_dragoman_prints_it_as_it_is() -> None:
    result = run("kube-scheduler", "--undo", stdin=KUBE)

    assert (result.exit_code, result.stdout) == (0, KUBE)
    assert "has nothing of Dragoman" in result.stderr


def test_a_name_of_the_clusters_dns_is_noted() -> None:
    assert "does not resolve it: give --url" in run("kube-scheduler", stdin=KUBE).stderr
    assert run("kube-scheduler", "--url", "http://10.0.0.1:9595", stdin=KUBE).stderr == ""


def test_a_key_chooses_among_the_configurations_of_a_config_map() -> None:
    holder = yaml.safe_dump({"kind": "ConfigMap", "data": {"a": KUBE, "b": KUBE}})

    found = made("kube-scheduler", "--key", "b", stdin=holder)

    assert "has 2 of KubeSchedulerConfiguration" in refused("kube-scheduler", stdin=holder)
    assert found["data"]["a"] == KUBE
    assert "extenders" in found["data"]["b"]


def test_undo_without_a_record_says_what_it_cannot_know() -> None:
    once = run("koord-scheduler", stdin=KUBE).stdout
    bare = "".join(row for row in once.splitlines(keepends=True) if not row.startswith("#"))

    result = run("koord-scheduler", "--undo", stdin=bare)

    assert "extenders" in result.stdout
    assert yaml.safe_load(result.stdout)["extenders"] == []
    assert "no profile enables DeviceShare" in result.stderr


@pytest.mark.parametrize("scheduler", ALL)
def test_new_begins_with_the_installers_default(scheduler: str) -> None:
    result = run(scheduler, "--new", "--undo")

    assert result.exit_code == 0
    assert "has nothing of Dragoman" in result.stderr


@pytest.mark.parametrize(
    ("scheduler", "text", "expected"),
    [
        ("kube-scheduler", "", "has no KubeSchedulerConfiguration, but nothing; give the file"),
        ("kube-scheduler", "kind: Pod\n", "but a Pod; give the file that the scheduler's --config"),
        ("kube-scheduler", VOLCANO, "but a document without a kind"),
        ("vc-scheduler", KUBE, "has no Volcano scheduler configuration, but a KubeScheduler"),
        ("kube-scheduler", f"{KUBE}a: [\n", "stdin:4: is not YAML"),
        ("kube-scheduler", f"{KUBE}---\n{KUBE}", "has 2 of KubeSchedulerConfiguration"),
        (
            "kube-scheduler",
            KUBE.replace("v1", "v1").replace("kubescheduler", "x"),
            "apiVersion: 'x.",
        ),
        ("kube-scheduler", f"{KUBE}profiles: 3\n", "profiles: 3 must be a list"),
        ("kube-scheduler", f"{KUBE}extenders: [x]\n", "extenders[0]: 'x' must be a mapping"),
        (
            "kube-scheduler",
            f"{KUBE}extenders:\n- {{urlPrefix: http://hami, bindVerb: bind}}\n",
            "extenders[0].bindVerb: 'bind' excludes Dragoman",
        ),
        (
            "kube-scheduler",
            f"{KUBE}extenders:\n- managedResources: [{{name: nvidia.com/gpu}}]\n",
            "extenders[0].managedResources: 'nvidia.com/gpu' excludes Dragoman",
        ),
        (
            "kube-scheduler",
            f"{KUBE}profiles:\n- plugins: {{filter: {{enabled: [{{name: DeviceShare}}]}}}}\n",
            "DeviceShare is a plugin of Koordinator; use: dragoman configure koord-scheduler",
        ),
        ("kube-scheduler", f"# dragoman-configure: x\n{KUBE}", "is damaged"),
        ("vc-scheduler", "tiers: 3\n", "tiers: 3 must be a list"),
        ("vc-scheduler", "tiers:\n- plugins: gang\n", "tiers[0].plugins: 'gang' must be a list"),
        (
            "vc-scheduler",
            "tiers:\n- plugins:\n  - {name: extender, arguments: {extender.urlPrefix: http://x}}\n",
            "a plugin extender calls 'http://x'",
        ),
    ],
)
def test_bad_input_is_refused_with_field_value_and_remedy(
    scheduler: str, text: str, expected: str
) -> None:
    assert expected in refused(scheduler, stdin=text)


@pytest.mark.parametrize(
    ("scheduler", "options", "expected"),
    [
        ("kube-scheduler", ["--url", "dragoman:9595"], "give http://HOST:PORT"),
        ("kube-scheduler", ["--url", "http://h:99999"], "give http://HOST:PORT"),
        ("kube-scheduler", ["--ca-file", "/x"], "need an address with https"),
        ("kube-scheduler", ["--ca-data", "/no/such"], "/no/such cannot be read"),
        ("kube-scheduler", ["--keep-deviceshare"], "is only for koord-scheduler"),
        ("kube-scheduler", ["--scheduler-name", "x"], "has 0 profiles"),
        ("koord-scheduler", ["--keep-deviceshare"], "no profile enables DeviceShare"),
        ("vc-scheduler", ["--url", "https://h:1"], "cannot verify TLS"),
        ("vc-scheduler", ["--kubeconfig", "/x"], "a flag of the same name"),
        ("vc-scheduler", ["--preemption"], "is not for vc-scheduler"),
        ("vc-scheduler", ["--kubernetes-version", "1.38"], "is not for vc-scheduler"),
        ("koord-scheduler", ["--kubernetes-version", "1.38"], "is only for kube-scheduler"),
        ("kube-scheduler", ["--kubernetes-version", "new"], "'new' is no version"),
        ("kube-scheduler", ["-f", "/tmp"], "is a folder"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(
    scheduler: str, options: list[str], expected: str
) -> None:
    assert expected in refused(scheduler, *options, stdin=GIVEN[scheduler])

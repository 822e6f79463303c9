"""kind's node image with this test bed's Kubernetes, and the images that kubeadm asks for."""

import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from e2e.kind import images
from e2e.kind.engine import Engine, EngineError
from e2e.testbed import cache
from e2e.testbed.versions import ROOT, GoComponent, components

HERE = Path(__file__).parent / "node"
PARTS = (
    *("node", "kind", "kubernetes", "etcd", "coredns", "containerd", "busybox"),
    *("volcano", "koordinator", "policy"),
)
BUSYBOX = f"{images.PREFIX}/busybox:1"
BASE = f"{images.PREFIX}/node-base:1"
POLICY = f"{images.PREFIX}/policy:1"
"""Enforces NetworkPolicies on a node (e2e/kind/node/network.yaml)."""
WORKLOAD = "busybox:1.37"
"""The image of the quickstart's pods; the program is the test bed's."""
GUIDES = (
    *("nvidia/cuda:9.0-devel", "nvidia/cuda:11.8.0-base-ubuntu22.04"),
    *("ubuntu:22.04", "ubuntu:24.04"),
)
"""The images of the guides' pods (configs/examples); the program is the same."""

# Where each program of the node image comes from, and where it is.
PROGRAMS = {
    "usr/bin/kubelet": "kubernetes",
    "usr/bin/kubeadm": "kubernetes",
    "usr/bin/kubectl": "kubernetes",
    "usr/local/bin/containerd": "containerd",
    "usr/local/bin/containerd-shim-runc-v2": "containerd",
    "usr/local/bin/ctr": "containerd",
}
APPLETS = (
    "sh",
    "cat",
    "cmp",
    "env",
    "id",
    "ip",
    "ls",
    "mv",
    "nc",
    "nslookup",
    "sleep",
    "true",
    "wget",
)
# Programs of a Debian root that kube-proxy and the enforcer of NetworkPolicies call.
NETFILTER = ("usr/sbin/xtables-nft-multi", "usr/sbin/nft")
# An image for each command; those that call the packet filter, and pause's, are made apart.
PLAIN = {
    "kube-apiserver": "kubernetes",
    "kube-controller-manager": "kubernetes",
    "kube-scheduler": "kubernetes",
    "etcd": "etcd",
    "coredns": "coredns",
}
# As Volcano's chart names its images; the entry points are those of its Dockerfiles.
VOLCANO = {
    "volcanosh/vc-scheduler": "vc-scheduler",
    "volcanosh/vc-controller-manager": "vc-controller-manager",
}
# As Koordinator's manifests name its images; e2e/kind/koordinator has the same.
KOORDINATOR = {
    "ghcr.io/koordinator-sh/koord-scheduler": "koord-scheduler",
    "ghcr.io/koordinator-sh/koord-manager": "koord-manager",
}


def node_image(engine: Engine) -> str:
    """The node image's name; builds it where it is missing, in two minutes.

    Raises:
        EngineError: it cannot be built.
    """
    own = sorted(file for file in HERE.iterdir() if file.is_file())
    image = f"{images.PREFIX}/node:{images.digest(*images.made_of(*PARTS), Path(__file__), *own)}"
    if not engine.has(image):
        base = _base(engine)
        names = [*kubeadm_images(engine), *volcano_images(engine), *koordinator_images(engine)]
        _commit(engine, base, names, image)
    return image


def version(part: str = "kubernetes") -> str:
    """The version of Kubernetes, or of another part, as ``v1.2.3``."""
    component = components()[part]
    assert isinstance(component, GoComponent)  # noqa: S101 - for mypy
    return component.version


def _base(engine: Engine) -> str:
    """The node image without images."""
    with TemporaryDirectory(prefix="dragoman-kind-") as name:
        context = Path(name)
        shutil.copytree(cache.asset("kind", "node"), context, dirs_exist_ok=True)
        for path, part in PROGRAMS.items():
            (context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(cache.binary(part, Path(path).name), context / path)
        manifests = context / "kind" / "manifests"
        manifests.mkdir()
        shutil.copy2(HERE / "network.yaml", manifests / "default-cni.yaml")
        shutil.copy2(HERE / "storage.yaml", manifests / "default-storage.yaml")
        (context / "kind" / "version").write_text(version())
        shutil.rmtree(context / "LICENSES")
        root = images.debian(engine, "node")
        engine.docker(
            *("build", f"--file={HERE / 'Dockerfile'}", f"--build-arg=ROOT={root}"),
            *(f"--tag={BASE}", context),
        )
    return BASE


def kubeadm_images(engine: Engine) -> list[str]:
    """Import what ``kubeadm config images list`` names, and ours; returns the names."""
    configuration = (cache.asset("kind", "node") / "etc/containerd/config.toml").read_text()
    sandbox = re.search(r'sandbox_image = "(.+)"', configuration)
    kubeadm = cache.binary("kubernetes", "kubeadm")
    listed = subprocess.run(
        [kubeadm, "config", "images", "list", f"--kubernetes-version={version()}"],
        capture_output=True,
        text=True,
        check=True,
    )
    busybox: dict[str, Path | str] = {"bin/busybox": cache.binary("busybox", "busybox")}
    busybox |= {"bin/bash": HERE / "bash"} | {f"bin/{applet}": "busybox" for applet in APPLETS}
    images.scratch(engine, BUSYBOX, busybox, ["/bin/sleep", "2147483647"])
    names = [BUSYBOX, WORKLOAD, *GUIDES, POLICY]
    _with_netfilter(engine, POLICY, cache.binary("policy", "policy"))
    for workload in (WORKLOAD, *GUIDES):
        engine.docker("tag", BUSYBOX, workload)
    if sandbox:
        names.append(sandbox[1])
        engine.docker("tag", BUSYBOX, sandbox[1])
    for name in listed.stdout.split():
        program = name.rpartition("/")[2].partition(":")[0]
        if program == "pause":
            engine.docker("tag", BUSYBOX, name)
        elif program == "kube-proxy":
            _with_netfilter(engine, name, cache.binary("kubernetes", "kube-proxy"))
        else:
            part = PLAIN[program]
            # CoreDNS is started by its image's command, the others by kubeadm's.
            entrypoint = [f"/usr/local/bin/{program}"]
            files: dict[str, Path | str] = {f"usr/local/bin/{program}": cache.binary(part, program)}
            images.scratch(engine, name, files, entrypoint)
        names.append(name)
    return names


def volcano_images(engine: Engine) -> list[str]:
    """Import what Volcano's chart names; returns the names."""
    values = yaml.safe_load((cache.asset("volcano", "chart") / "values.yaml").read_text())
    tag = values["basic"]["image_tag_version"]
    return [
        images.scratch(
            engine, f"{name}:{tag}", {program: cache.binary("volcano", program)}, [f"/{program}"]
        )
        for name, program in VOLCANO.items()
    ]


def koordinator_images(engine: Engine) -> list[str]:
    """Import what Koordinator's manifests name; returns the names."""
    tag = version("koordinator")
    return [
        images.scratch(engine, f"{name}:{tag}", {program: cache.binary("koordinator", program)})
        for name, program in KOORDINATOR.items()
    ]


def _with_netfilter(engine: Engine, name: str, program: Path) -> None:
    """A program, with iptables and nft and their libraries from the node's Debian root."""
    root = cache.place(components()["node"]) / ROOT
    modules = sorted((root / "usr/lib").glob("*-linux-gnu/xtables/*.so"))
    files: dict[str, Path | str] = {
        f"usr/local/bin/{program.name}": program,
        **{link: f"usr/{link}" for link in ("bin", "lib", "lib64", "sbin")},
    }
    programs = [root / path for path in NETFILTER]
    for path in (*programs, *modules):
        files[str(path.relative_to(root))] = path
    words = [f"/{path.relative_to(root)}" for path in (*programs, *modules)]
    said = subprocess.run(
        ["chroot", root, "ldd", *words], capture_output=True, text=True, check=False
    )
    for library in set(re.findall(r"(/\S+) \(0x", said.stdout)):
        inside = library if library.startswith("/usr") else f"/usr{library}"
        files[inside.lstrip("/")] = (root / inside.lstrip("/")).resolve()
    for command in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            files[f"usr/sbin/{command}{suffix}"] = "xtables-nft-multi"
    for file in ("etc/protocols", "etc/services"):
        if (root / file).exists():
            files[file] = root / file
    images.scratch(engine, name, files, [f"/usr/local/bin/{program.name}"])


# Until the daemon that it has just started answers.
WAIT = "until ctr version > /dev/null 2>&1; do sleep 0.2; done"


def _commit(engine: Engine, base: str, names: list[str], image: str) -> None:
    """Load images into a node's containerd, and commit the node as an image."""
    builder = engine.docker(
        *("run", "--detach", "--privileged", "--network=none", "--entrypoint=containerd", base)
    ).strip()
    try:
        loading = f"{WAIT}; ctr --namespace=k8s.io images import --no-unpack -"
        with subprocess.Popen(
            ["docker", "save", *names], stdout=subprocess.PIPE, env=engine.environment()
        ) as archive:
            done = subprocess.run(
                ["docker", "exec", "--interactive", builder, "bash", "-c", loading],
                stdin=archive.stdout,
                capture_output=True,
                check=False,
                env=engine.environment(),
            )
        if done.returncode or archive.returncode:
            raise EngineError(f"images of the node: {done.stderr.decode()[-1000:]}")
        engine.docker("stop", builder)
        entrypoint = engine.docker("image", "inspect", "--format={{json .Config.Entrypoint}}", base)
        engine.docker(
            *("commit", f"--change=ENTRYPOINT {entrypoint.strip()}", "--change=CMD []"),
            *(builder, image),
        )
    finally:
        engine.docker("rm", "--force", "--volumes", builder)

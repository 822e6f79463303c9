"""The least that an NRI plugin costs: one in C that sends prepared answers."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from adapters.agent.nri import messages, ttrpc
from adapters.agent.nri.connection import Connection
from adapters.agent.nri.model import Adjustment
from adapters.agent.nri.session import Session, Stage

SOURCE = Path(__file__).with_name("least_plugin.c")
CHUNK = 1 << 16


def build(folder: Path) -> Path:
    """Compile the plugin.

    Raises:
        FileNotFoundError: there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise FileNotFoundError("no C compiler (cc or gcc) for the least plugin")
    program = folder / "least_plugin"
    words: list[str | Path] = [
        compiler,
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        program,
        SOURCE,
    ]
    subprocess.run(words, check=True)  # noqa: S603  # words are our own
    return program


@contextmanager
def connected(
    program: Path, socket: Path, uid: str, plain: Adjustment, share: Adjustment
) -> Iterator[None]:
    """Run the plugin, connected to a runtime that calls it for each container.

    Args:
        program: of ``build``.
        socket: on which the runtime accepts plugins.
        uid: of the pod whose containers have a share.
        plain: the answer for containers of other pods.
        share: the answer for containers of that pod.
    """
    session = Session("least", "50")
    sock = Connection.connect(socket, session).sock
    while session.stage is not Stage.ACTIVE:
        sock.sendall(session.feed(sock.recv(CHUNK)).send)
    payloads = [
        messages.encode_create_container_response(share),
        messages.encode_create_container_response(plain),
        b"",
    ]
    words: list[str | Path] = [
        program,
        str(sock.fileno()),
        uid,
        *(_answer(each).hex() for each in payloads),
    ]
    with sock, subprocess.Popen(words, pass_fds=[sock.fileno()]) as plugin:  # noqa: S603
        yield
        plugin.terminate()


def _answer(payload: bytes) -> bytes:
    data = ttrpc.encode_response(ttrpc.RpcResponse(payload))
    return ttrpc.frames(ttrpc.PLUGIN, ttrpc.encode(ttrpc.RpcMessage(0, ttrpc.RESPONSE, data)))

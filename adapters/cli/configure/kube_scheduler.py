"""kube-scheduler: extenders in its KubeSchedulerConfiguration."""

from urllib.parse import urlsplit

from adapters.cli.configure import extender
from adapters.cli.configure.document import Configuration
from adapters.cli.configure.mode import SchedulerMode
from adapters.cli.configure.options import ConfigureOptions
from adapters.cli.input.source import InputError

KIND = extender.KIND


def add(found: Configuration, options: ConfigureOptions) -> list[str]:
    """Add what Dragoman needs; notes for the user.

    Raises:
        InputError: the configuration or an option does not allow it.
    """
    if options.keep_deviceshare is not None:
        raise InputError("--keep-deviceshare", "is only for koord-scheduler; leave it out")
    if options.mode is SchedulerMode.NATIVE:
        raise InputError(
            "--mode", "'native' is not for kube-scheduler, which has no device plugin; leave it out"
        )
    for field, enabled in extender.plugin_lists(found):
        if any(isinstance(each, dict) and each.get("name") == "DeviceShare" for each in enabled):
            problem = "a plugin of Koordinator; use: dragoman configure koord-scheduler"
            raise InputError(found.name, f"{'.'.join(field)}: DeviceShare is {problem}")
    if options.ask is not None:
        raise InputError("--ask", "is for --mode native of other schedulers; leave it out")
    extender.set_common(found, options)
    extender.set_extenders(found, options, binds=True)
    host = urlsplit(extender.own_url(found) or "").hostname
    if host is not None and ".svc" in host:
        return [
            f"{host} is a name of the cluster's DNS. A kube-scheduler on the host's network, such"
            " as kubeadm's static pod, does not resolve it: give --url with the Service's cluster"
            " IP there"
        ]
    return []


def remove(found: Configuration) -> list[str]:
    """Take Dragoman out again; notes for the user."""
    extender.remove_extenders(found)
    return found.record.undo(found.body)

#!/usr/bin/env bash
# room.sh FOLDER ROOT DATA COMMAND...: the first process of e2e/kind/room.py's namespaces. It makes a root of its own from
# ROOT, under a layer for what is written, and becomes COMMAND.
set -euo pipefail
folder=$1 lower=$2 data=$3
shift 3

hostname dragoman-e2e
root=$folder/root
mkdir -p "$root" "$folder/upper" "$folder/work" "$data"
mount -t overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
cd "$root"
mkdir -p outside var/lib/docker
mount --rbind /dev dev
mount --make-rslave dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
    # As Docker's dind does: a group with subgroups that have controllers has no processes of its own.
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mkdir -p sys/fs/cgroup/engine
    echo $$ > sys/fs/cgroup/engine/cgroup.procs
    for controller in $(< sys/fs/cgroup/cgroup.controllers); do
        echo "+$controller" > sys/fs/cgroup/cgroup.subtree_control || true
    done
else
    # Version 1 alone: engines make no groups of their own in a version 2 that is mounted beside it.
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    while IFS=: read -r _ names _; do
        [[ -n $names ]] || continue
        mkdir "sys/fs/cgroup/${names#name=}"
        options=$names
        [[ $names == name=* ]] && options=none,$names
        mount -t cgroup -o "$options" cgroup "sys/fs/cgroup/${names#name=}"
    done < /proc/self/cgroup
fi
mkdir -p ".$folder"
mount --bind "$folder" ".$folder"
mount --bind "$data" var/lib/docker
cp --remove-destination /etc/resolv.conf etc/resolv.conf
echo '127.0.0.1 localhost dragoman-e2e' > etc/hosts
if [[ -f /etc/ssl/certs/ca-certificates.crt ]]; then # as this machine trusts, a proxy's authority included
    cp --remove-destination /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
fi
pivot_root . outside
umount -l outside
ip link set lo up
mount --make-rshared /
exec "$@"

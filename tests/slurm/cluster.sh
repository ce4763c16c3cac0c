#!/usr/bin/env bash
# A real Slurm of four virtual nodes on this machine, for tests: the controller, and for each node a daemon with a host name
# of its own. Needs root for the namespaces, and no systemd, cgroups or munge; writes nothing outside FOLDER; all ports
# are on 127.0.0.1, because whoever reaches them may start jobs. Up in half a second.
#
#   cluster.sh up FOLDER       # then: export SLURM_CONF=FOLDER/slurm.conf
#   cluster.sh kill FOLDER n3  # the node vanishes, and everything that runs on it
#   cluster.sh start FOLDER n3 # and comes back
#   cluster.sh down FOLDER
set -euo pipefail
nodes=4
PATH=$PATH:/usr/sbin:/sbin

usage() {
    echo "usage: cluster.sh up|down FOLDER | kill|start FOLDER NODE" >&2
    exit 2
}

# A free range of ports: the controller's, then one for each node.
free_port() {
    local port i busy
    for port in $(shuf -i 2000-3000 -n 50); do
        port=$((port * 10))
        busy=''
        for ((i = 0; i <= nodes; i++)); do
            (: <"/dev/tcp/127.0.0.1/$((port + i))") 2>/dev/null && busy=1
        done
        [ "$busy" ] || { echo "$port" && return; }
    done
    return 1
}

# What matters to the tests: short times until a node counts as lost (SlurmdTimeout), a killed job is ended (KillWait),
# and a requeued job starts again (cred_expire); jobs of the partition `urgent` requeue those of `normal`. A node has
# two processors and 4,000 MB, whatever the machine has (config_overrides).
write_conf() {
    local folder=$1 port=$2 user host i
    user=$(id -un)
    host=$(uname -n)
    cat <<CONF
ClusterName=longhaul
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=5
BatchStartTimeout=10
KillWait=5
InactiveLimit=0
MinJobAge=300
Waittime=0
EnforcePartLimits=ALL
SlurmdParameters=config_overrides
StateSaveLocation=$folder/state
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdSpoolDir=$folder/spool/%n
SlurmdPidFile=$folder/%n.pid
SlurmdLogFile=$folder/%n.log
TmpFS=$folder/tmp/%n
CONF
    for ((i = 1; i <= nodes; i++)); do
        echo "NodeName=n$i NodeAddr=127.0.0.1 Port=$((port + i)) CPUs=2 RealMemory=4000"
    done
    echo "PartitionName=normal Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE PriorityTier=1"
    echo "PartitionName=urgent Nodes=n[1-$nodes] MaxTime=INFINITE PriorityTier=10"
}

# Each daemon has its own UTS and mount namespace, and in it the node's name, which all nodes can resolve.
start_node() {
    mkdir -p "$folder/spool/$1" "$folder/tmp/$1"
    # shellcheck disable=SC2016 # for the inner shell
    unshare --uts --mount bash -c 'readlink /proc/self/ns/uts >"$2/$1.namespace" && hostname "$1" && mount --bind "$2/hosts" /etc/hosts &&
        exec slurmd -f "$SLURM_CONF" -N "$1"' - "$1" "$folder"
}

up() {
    local i
    mkdir -p "$folder/state"
    {
        cat /etc/hosts
        for ((i = 1; i <= nodes; i++)); do echo "127.0.0.1 n$i"; done
    } >"$folder/hosts"
    write_conf "$folder" "$(free_port)" >"$SLURM_CONF"
    slurmctld -f "$SLURM_CONF" -c
    for ((i = 1; i <= nodes; i++)); do start_node "n$i"; done
    for ((i = 0; i < 100; i++)); do
        [ "$(sinfo -h -p normal -o '%t %D' 2>/dev/null)" = "idle $nodes" ] && return
        sleep 0.1
    done
    echo "error: the nodes of Slurm do not come up:" >&2
    sinfo >&2 || true
    tail -n 5 "$folder"/*.log >&2
    down
    exit 1
}

# All processes of a node: those in its UTS namespace that this Slurm has started. What a reboot clears goes, too.
kill_node() {
    local names p
    [ -e "$folder/$1.namespace" ] || return 0
    names=$(cat "$folder/$1.namespace")
    for p in /proc/[0-9]*; do
        if [ "$(readlink "$p/ns/uts" 2>/dev/null)" = "$names" ] && grep -qzxF "SLURM_CONF=$SLURM_CONF" "$p/environ" 2>/dev/null; then
            kill -9 "${p#/proc/}" 2>/dev/null || true
        fi
    done
    rm -rf "$folder/spool/$1" "$folder/tmp/$1" "$folder/$1.namespace"
}

down() {
    local i pid
    for ((i = 1; i <= nodes; i++)); do kill_node "n$i"; done
    pid=$(cat "$folder/slurmctld.pid" 2>/dev/null || true)
    if [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = slurmctld ]; then kill -9 "$pid"; fi
}

[ $# -ge 2 ] || usage
mkdir -p "$2"
folder=$(cd "$2" && pwd -P)
export SLURM_CONF=$folder/slurm.conf
case $1 in
up | down) "$1" ;;
kill | start) "$1_node" "${3:?}" ;;
*) usage ;;
esac

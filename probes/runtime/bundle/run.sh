#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A bundle of Tollmeter: sh FILE [--out DIR] [--budget SECONDS] [--cpus LIST] [--seed N], or sh FILE --licences
# Measures this machine, prints the answer, and leaves DIR/journal.jsonl, of which `toll import` makes a run.
# It needs a shell, mkdir, rm, tail, head, tar and @UNPACK@. It writes into DIR and a new folder below $TMPDIR or /tmp.

# NAME OFFSET BYTES SHA256 MACHINES
sections='@SECTIONS@'
header=@HEADER@

# A system may have BusyBox and no links to it. It starts its own tools by /proc/self/exe, which may be missing too.
tools() {
  for busybox in /bin/busybox /usr/bin/busybox /sbin/busybox; do [ -x $busybox ] && break; done
  [ -x $busybox ] || return 0
  list=$(echo; $busybox --list; echo .)
  for tool in tail head tar @UNPACK@ sha256sum uname mkdir rm sed sleep sync poweroff halt reboot; do
    case "$list" in *"
$tool
"*) eval "$tool() { $busybox $tool \"\$@\"; }" ;; esac
  done
}

say() { echo "bundle: $*" >&2; }

part() { tail -c +$((header + $2 + 1)) "$self" | head -c "$3"; }

# Whether a section is what was written; without sha256sum the format's own checksum is compared while it is unpacked.
is_whole() {
  [ -n "$(command -v sha256sum)" ] || return 0
  sum=$(part "$@" | sha256sum)
  [ "${sum%% *}" = "$4" ]
}

unpack() {
  is_whole "$@" || { say "$self was altered or cut short: the checksum of its part $1 is another one"; exit 2; }
  part "$@" | @UNPACK@ -dc | (cd "$work" && tar xf -) || not_unpacked "$1"
}

not_unpacked() {
  say "$1 cannot be unpacked into $work: no space there, or $self was altered (TMPDIR names another folder)"
  exit 5
}

# Sections whose machines have this one's name; all of them where none has.
candidates() {
  machine=$(uname -m)
  named=$(echo "$sections" | while read -r name offset bytes sum machines; do
    case ",$machines," in *,"$machine",*) echo "$name $offset $bytes $sum" ;; esac
  done)
  [ -n "$named" ] && echo "$named" && return
  echo "$sections" | while read -r name offset bytes sum machines; do
    [ "$machines" = '*' ] || echo "$name $offset $bytes $sum"
  done
}

unpack_all() {
  while read -r name offset bytes sum machines; do
    [ "$machines" = '*' ] && unpack "$name" "$offset" "$bytes" "$sum"
  done <<END
$sections
END
  while read -r name offset bytes sum; do
    unpack "$name" "$offset" "$bytes" "$sum"
    if "$work/$name/toll-runner" --runs 2>&-; then
      runner=${runner:-$work/$name/toll-runner}
    else
      rm -rf "${work:?}/$name"
    fi
  done <<END
$(candidates)
END
}

# Of an archive, which was unpacked by hand.
find_unpacked() {
  case "$self" in */*) work=${self%/*} ;; *) work=. ;; esac
  parent=$work
  for one in "$work"/*/toll-runner; do
    if "$one" --runs 2>&-; then runner=${runner:-$one}; fi
  done
}

# Whether this is a machine's first process and not a container's: Linux has its kthreadd beside it. Without /proc it is.
is_init() {
  [ $$ = 1 ] || return 1
  [ -e /proc/1 ] || return 0
  read -r second 2>&- </proc/2/comm && [ "$second" = kthreadd ]
}

# The words, with a folder for the journal where none is named; as a machine's process 1 there is nowhere to keep it.
run() {
  has_out=
  for word in "$@"; do [ "$word" = --out ] && has_out=yes; done
  if [ -z "$has_out" ] && is_init; then
    set -- "$@" --out -
  elif [ -z "$has_out" ]; then
    out=toll-run number=1
    while [ -e "$out" ]; do number=$((number + 1)); out=toll-run-$number; done
    set -- "$@" --out "$out"
    say "the journal is written into $out"
  fi
  # A shell gives what runs in the background /dev/null to read, and fails without it.
  if [ ! -c /dev/null ]; then
    trap : INT TERM HUP
    "$runner" "$work" "$@"
    return
  fi
  "$runner" "$work" "$@" &
  child=$!
  # A signal ends `wait` with a code of its own, even if the child has ended; waiting once more gives the child's.
  asked=
  trap 'asked=yes; kill -INT $child 2>&-' INT TERM HUP
  wait $child
  code=$?
  while [ -n "$asked" ]; do
    asked=
    wait $child
    again=$?
    [ $again = 127 ] || code=$again
  done
  return $code
}

main() {
  self=$0 runner=
  tools
  [ -f "$self" ] || { say "start it by its name: sh FILE"; exit 2; }
  case "$1" in -h | --help) sed -n '/^# A bundle/,/^$/s/^# //p' "$self"; exit 0 ;; esac
  parent=${TMPDIR:-/tmp}
  if [ -n "$sections" ]; then
    is_init && mkdir -p "$parent"
    work=$parent/toll-bundle.$$
    (umask 077 && mkdir "$work") || { say "cannot write into $parent: TMPDIR names another folder"; exit 5; }
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP
    unpack_all
  else
    find_unpacked
  fi
  [ "$1" != --licences ] || { tail -n +1 "$work/NOTICE"; exit; }
  if [ -z "$runner" ]; then
    say "none of its ABIs runs here, or $parent is mounted noexec (TMPDIR names another folder)"
    exit 6
  fi
  run "$@"
  code=$?
  is_init || exit $code
  sync
  poweroff -f || halt -f || reboot -f
  while :; do sleep 1000; done
}

main "$@"
exit

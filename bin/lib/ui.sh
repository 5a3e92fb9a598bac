# How the commands in bin/ talk: numbered steps with their seconds, a log per
# step, a sign of life while a long one runs, and the log's tail when one fails.
#
#   step "Compiling" compile.log make -j2
#
# Expects NB_LOGS, the folder for logs. Sourced by bash 3.2 or newer.

say() { printf '%s\n' "$*"; }

# Ends the command with a message: what happened first, then what to do.
fail() {
  printf '\n%s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

# step TITLE LOG COMMAND... - runs the command with its output in NB_LOGS/LOG.
step() {
  local title=$1 log="$NB_LOGS/$2" started=$SECONDS status=0 child beat=0
  shift 2
  mkdir -p "$NB_LOGS"
  printf '%s ' "- $title"
  # A process group of its own, so that an interrupt ends all that was started.
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  child=$!
  set +m
  trap 'kill -- "-$child" 2>/dev/null; wait "$child" 2>/dev/null || true; printf "\ninterrupted\n" >&2; exit 130' INT TERM
  while kill -0 "$child" 2>/dev/null; do
    sleep 0.2
    beat=$((beat + 1))
    if [ $((beat % 5)) -eq 0 ]; then show_progress "$title" "$log" $((SECONDS - started)); fi
  done
  wait "$child" || status=$?
  trap - INT TERM
  if [ -t 1 ]; then printf '\r\033[K%s ' "- $title"; fi
  if [ "$status" -eq 0 ]; then
    printf '(%s s)\n' $((SECONDS - started))
    return 0
  fi
  printf 'FAILED (%s s)\n' $((SECONDS - started))
  if [ "${NB_MAY_FAIL:-}" = yes ]; then return "$status"; fi
  printf '\nThe end of %s:\n' "$log" >&2
  tail -n 25 "$log" | sed 's/^/    /' >&2
  fail "$title failed with status $status." "The whole log: $log"
}

# try_step - the same, but a failure is handed to the caller instead of ending all.
try_step() {
  local status=0
  NB_MAY_FAIL=yes
  step "$@" || status=$?
  NB_MAY_FAIL=
  return "$status"
}

# A line that counts on a terminal; a dot each five seconds elsewhere.
show_progress() {
  local lines
  if [ -t 1 ]; then
    lines=$(wc -l <"$2")
    printf '\r\033[K- %s … %s s, %s lines' "$1" "$3" "$((lines))"
  elif [ $(($3 % 5)) -eq 0 ]; then
    printf '.'
  fi
}

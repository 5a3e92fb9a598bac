# A newer PgBouncer than the distribution's, for tests: one from 1.21 on keeps the names of prepared
# statements. It is built from the source package of a newer release, and installed nowhere but in NB_HOME.
#
#   find_pgbouncer     # exports NEVERBLOCK_PGBOUNCER, the path of its program, where there is one
#   want_pgbouncer     # builds it where it can be had; the tests that need it are skipped without
#
# Expects NB_HOME, debian.sh and ui.sh. NEVERBLOCK_PGBOUNCER, where set, wins.

NB_PGBOUNCER_PACKAGES="dpkg-dev xz-utils libevent-dev libssl-dev"

find_pgbouncer() {
  local program
  [ -z "${NEVERBLOCK_PGBOUNCER:-}" ] || return 0
  for program in "$NB_HOME"/pgbouncer-*/bin/pgbouncer; do
    if [ -x "$program" ]; then export NEVERBLOCK_PGBOUNCER="$program"; fi
  done
}

want_pgbouncer() {
  local missing
  find_pgbouncer
  if [ -n "${NEVERBLOCK_PGBOUNCER:-}" ] || ! on_debian || keeps_names; then return 0; fi
  NB_APT="$NB_HOME/apt"
  mkdir -p "$NB_HOME"
  # shellcheck disable=SC2086 # a list of words
  missing=$(missing_packages $NB_PGBOUNCER_PACKAGES)
  if [ -n "$missing" ]; then
    [ "$(id -u)" -eq 0 ] || return 0
    # shellcheck disable=SC2086
    try_step "Installing packages that tests need: $missing" pgbouncer-packages.log install_packages $missing || return 0
  fi
  try_step "Building a newer PgBouncer for tests" pgbouncer.log build_pgbouncer || say "- Note: tests of a newer PgBouncer will be skipped"
  find_pgbouncer
}

# Whether the installed one is new enough.
keeps_names() {
  local version
  version=$(pgbouncer --version 2>/dev/null | sed -n 's/^PgBouncer \([0-9.]*\).*/\1/p')
  [ -n "$version" ] && [ "$(printf '1.21\n%s\n' "$version" | sort -V | head -n 1)" = 1.21 ]
}

# From the first of the releases that has it: those that are in the making change under one's hands.
fetch_pgbouncer() {
  local suite
  for suite in $(sed -n 's/^Suites: //p' "$NB_APT/deb-src.sources"); do
    own_apt apt-get source --download-only "pgbouncer/$suite" && return 0
  done
  return 1
}

# Each step by itself: `set -e` does not hold where a failure is looked at.
build_pgbouncer() {
  local work="$NB_APT/pgbouncer" version
  ls "$NB_APT"/lists/*Sources* >/dev/null 2>&1 || read_sources || return 1
  rm -rf "$work"
  mkdir -p "$work" && cd "$work" &&
    fetch_pgbouncer &&
    version=$(sed -n 's/^Version: //p' pgbouncer_*.dsc | head -n 1) &&
    # apt has checked the files against the signed index.
    dpkg-source --no-check -x pgbouncer_*.dsc unpacked &&
    cd unpacked && ./configure --without-systemd && make -j"$(nproc)" pgbouncer &&
    install -D pgbouncer "$NB_HOME/pgbouncer-${version%%-*}/bin/pgbouncer" &&
    cd / && rm -rf "$work"
}

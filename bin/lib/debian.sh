# Debian and Ubuntu: installs packages, and builds a Ruby where none is found,
# from the source package of a newer release of the distribution. That release
# is read through an apt configuration of its own, so the system's lists, its
# packages, its Ruby and its libc stay as they are.
#
#   on_debian && build_debian_ruby
#
# Expects NB_HOME, NB_LOGS and ui.sh.

NB_COMPILE_PACKAGES="build-essential pkg-config liburing-dev ca-certificates"
# For two scenes of bin/demo.
NB_DEMO_PACKAGES="postgresql libpq-dev"
# What some tests put beside the server; they are skipped without. pg is compiled against libpq, mysql2 against libmariadb.
NB_PEER_PACKAGES="postgresql postgresql-postgis libpq-dev pgbouncer mariadb-server libmariadb-dev redis-server memcached nginx haproxy wrk"
NB_RUBY_PACKAGES="dpkg-dev xz-utils autoconf bison libssl-dev libyaml-dev libffi-dev zlib1g-dev libgmp-dev"

on_debian() { [ -r /etc/debian_version ] && command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

# The packages of the list that are not installed.
missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || printf '%s ' "$package"
  done
}

# Installs what is missing, as root; otherwise ends with the command to type.
need_packages() {
  local missing
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    fail "Packages are missing, and only root can install them: $missing" \
      "Type this, then run it again:" "" "sudo apt-get update" \
      "sudo apt-get install --no-install-recommends $missing"
  fi
  # shellcheck disable=SC2086 # a list of words
  step "Installing packages: $missing" packages.log install_packages $missing
}

install_packages() (
  policy=/usr/sbin/policy-rc.d
  # Debian's own switch against services that start when their package is installed.
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\n# Put here by the bin/setup of NeverBlock while it installs packages.\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
)

# apt with its own lists, cache and sources: nothing here touches the system's.
own_apt() {
  local tool=$1
  shift
  "$tool" -o Dir::Etc::SourceList="$NB_APT/deb-src.sources" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$NB_APT/lists" -o Dir::Cache="$NB_APT/cache" -o Acquire::Languages=none \
    -o Acquire::IndexTargets::deb-src::DEP-11::DefaultEnabled=false -o APT::Sandbox::User="$(id -un)" \
    -o APT::Update::Post-Invoke-Success::= "$@"
}

# The mirror that this machine's own apt uses for its release.
machine_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
    awk -v release="$1" '$2 == release { print $1; exit }'
}

# Writes the sources for newer releases, those already published first.
write_sources() {
  local id codename keyring suites suite mirror
  # shellcheck disable=SC1091
  id=$(. /etc/os-release && echo "$ID")
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  case $id in
    debian) keyring=/usr/share/keyrings/debian-archive-keyring.gpg suites="trixie forky" ;;
    ubuntu) keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg suites="resolute questing devel" ;;
    *) echo "no newer releases are known for the distribution \"$id\"" && return 1 ;;
  esac
  suites=${NEVERBLOCK_SUITES:-$suites}
  mirror=$(machine_mirror "$codename")
  if [ -z "$mirror" ]; then
    echo "apt's sources name no mirror for \"$codename\": nothing to fetch a Ruby from"
    return 1
  fi
  [ -r "$keyring" ] || { echo "$keyring is missing: install the distribution's keyring package" && return 1; }
  : >"$NB_APT/deb-src.sources"
  for suite in $suites; do
    printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' \
      "$mirror" "$suite" "$keyring" >>"$NB_APT/deb-src.sources"
  done
}

# The newer releases' lists of source packages.
read_sources() {
  mkdir -p "$NB_APT/lists/partial" "$NB_APT/cache/archives/partial"
  write_sources || return 1
  own_apt apt-get update || echo "some suites could not be read; going on with the others"
}

# Fills NB_APT/candidates: "PACKAGE VERSION UPSTREAM" a line, best first: the
# newest Ruby, and of several packagings of one Ruby that of the first suite.
list_source_rubies() {
  read_sources || return 1
  own_apt apt-get indextargets --format '$(FILENAME)' 'Created-By: Sources' | while IFS= read -r index; do
    /usr/lib/apt/apt-helper cat-file "$index" | awk '
      /^Package: / { package = $2 }
      /^Version: / && package ~ /^ruby[0-9]+\.[0-9]+$/ {
        upstream = $2; sub(/^[0-9]+:/, "", upstream); sub(/-[^-]*$/, "", upstream)
        if (upstream ~ /^[0-9]+\.[0-9]+\.[0-9]+$/) print package, $2, upstream
      }'
  done | awk '{ split($3, n, "."); if (n[1] * 1000 + n[2] >= 3003) printf "%03d%03d%03d %s\n", n[1], n[2], n[3], $0 }' |
    sort -s -k1,1r | cut -d " " -f 2- >"$NB_APT/candidates"
  cat "$NB_APT/candidates"
  [ -s "$NB_APT/candidates" ] || { echo "no Ruby of 3.3 or later in these suites" && return 1; }
}

# Unpacks a source package into NB_HOME/src/ruby-UPSTREAM, with the distribution's patches.
fetch_source() {
  local package=$1 version=$2 upstream=$3 target="$NB_HOME/src/ruby-$3"
  rm -rf "$NB_APT/fetch"
  mkdir -p "$NB_APT/fetch" "$NB_HOME/src"
  (
    cd "$NB_APT/fetch"
    own_apt apt-get source --download-only "$package=$version"
    # apt has checked the files against the signed index.
    dpkg-source --no-check -x "$package"_*.dsc unpacked
    # The archive leaves the bundled gems out, and make would look for them.
    : >unpacked/gems/bundled_gems
    rm -rf "$target"
    mv unpacked "$target"
  ) || return 1
  rm -rf "$NB_APT/fetch"
}

# Configures, compiles and installs NB_HOME/src/ruby-UPSTREAM into
# NB_HOME/ruby-UPSTREAM. The prefix appears only when it is complete.
compile_ruby() {
  local upstream=$1 yjit=--disable-yjit prefix="$NB_HOME/ruby-$1" stage="$NB_HOME/stage-$1"
  if command -v rustc >/dev/null && rustc --version >/dev/null 2>&1; then yjit=--enable-yjit; fi
  rm -rf "$stage"
  (
    cd "$NB_HOME/src/ruby-$upstream"
    ./configure --prefix="$prefix" --disable-install-doc "$yjit" debugflags=-g1
    make -j"$(nproc)"
    make install DESTDIR="$stage"
    # Ruby's own tests need the tree and its test extensions (.ext), not the objects.
    find . -name "*.o" -delete
    rm -rf yjit/target libruby-static.a miniruby ruby
  ) || return 1
  mv "$stage$prefix" "$prefix"
  rm -rf "$stage"
}

# Builds the newest Ruby there is, or the next one where that fails. Leaves its
# path in NB_HOME/ruby-*, where find_ruby looks.
build_debian_ruby() {
  local package version upstream
  # Paths with blanks are beyond Ruby's own Makefile.
  case $NB_HOME in
    *[[:space:]]*) fail "Ruby cannot be built in \"$NB_HOME\": its path has a blank." \
      "Set NEVERBLOCK_HOME to a folder without one, for example NEVERBLOCK_HOME=/var/tmp/neverblock." ;;
  esac
  NB_APT="$NB_HOME/apt"
  mkdir -p "$NB_HOME"
  # shellcheck disable=SC2086
  need_packages $NB_COMPILE_PACKAGES $NB_RUBY_PACKAGES
  step "Looking for Ruby's source in the distribution's newer releases" source-list.log list_source_rubies
  while read -r package version upstream; do
    try_step "Fetching the source of Ruby $upstream ($package $version)" "fetch-$upstream.log" \
      fetch_source "$package" "$version" "$upstream" || continue
    try_step "Building Ruby $upstream (about three minutes on two cores)" "build-$upstream.log" \
      compile_ruby "$upstream" || continue
    return 0
  done <"$NB_APT/candidates"
  fail "No Ruby could be built." "The logs are in $NB_LOGS." \
    "Any Ruby of 3.3 or later will do: NEVERBLOCK_RUBY=/path/to/ruby bin/setup"
}

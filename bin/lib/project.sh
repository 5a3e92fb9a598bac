# Makes the project ready for one Ruby: gems into vendor/bundle, the extension
# into lib/neverblock/SERIES. Expects NB_ROOT as the working folder, NB_STATE,
# NB_RUBY and its companions, ui.sh; and NB_PART, which says how much of it:
#
#   demo    what the demo and programs need, to be ready soon: Rake, the extension, and PostgreSQL and Rails for the demo
#   all     what tests and style checks need besides

# Bundles beside the project's own: one holds one Rack and one Rails. The older Rails: bin/test --long installs them.
NB_DEMO_BUNDLES="demo/Gemfile"
NB_TEST_BUNDLES="test/apps/rack2.gemfile test/apps/libpq.gemfile test/apps/tracing.gemfile test/apps/rails/8.1.gemfile"

# project_digest PART - one checksum over all that the gems and the compiled extension depend on.
project_digest() {
  {
    printf '%s\n' "$NB_RUBY" "$NB_RUBY_VERSION" "${NEVERBLOCK_EXTCONF:-}" "$(gems_left_out "$1")"
    pkg-config --modversion liburing 2>/dev/null || true
    cat Gemfile neverblock.gemspec lib/neverblock/version.rb rakelib/compile.rake
    cat demo/Gemfile test/apps/*.gemfile test/apps/rails/*.gemfile 2>/dev/null || true
    if [ -d ext ]; then find ext -type f -name '*.[chr]*' | LC_ALL=C sort | while IFS= read -r file; do
      printf '%s\n' "$file"
      cat "$file"
    done; fi
  } | cksum
}

# Where all is ready, so is the demo.
project_ready() {
  [ -n "$(ls lib/neverblock/"$NB_RUBY_SERIES"/neverblock_ext.* 2>/dev/null)" ] &&
    [ -d vendor/bundle ] &&
    { part_ready all || { [ "$NB_PART" = demo ] && part_ready demo; }; }
}

part_ready() { [ -s "$(ready_file "$1")" ] && [ "$(cat "$(ready_file "$1")")" = "$(project_digest "$1")" ]; }

# What bin/setup writes when a part is ready: its digest.
ready_file() {
  case $1 in
    all) echo "$NB_STATE/ready-$NB_RUBY_SERIES" ;;
    *) echo "$NB_STATE/ready-$1-$NB_RUBY_SERIES" ;;
  esac
}

prepare_project() {
  need_compiler
  # shellcheck disable=SC2086 # lists of words
  if [ "$NB_PART" = demo ]; then
    want_packages "the demo needs" "two scenes of the demo will be passed over" $NB_DEMO_PACKAGES
  else
    want_packages "tests need" "some tests will be skipped" $NB_PEER_PACKAGES
    want_pgbouncer
  fi
  install_gems_of_ruby
  step "Compiling the extension for Ruby $NB_RUBY_SERIES" "compile-$NB_RUBY_SERIES.log" bundle exec rake compile
  project_digest "$NB_PART" >"$(ready_file "$NB_PART")"
}

# A compiler, make and liburing (which is optional: without it there is no uring engine).
need_compiler() {
  if on_debian && [ "$(id -u)" -eq 0 ]; then
    # shellcheck disable=SC2086
    need_packages $NB_COMPILE_PACKAGES
  elif ! command -v make >/dev/null || ! { command -v cc || command -v gcc || command -v clang; } >/dev/null; then
    if on_debian; then
      # shellcheck disable=SC2086
      need_packages $NB_COMPILE_PACKAGES
    fi
    fail "No C compiler or no make was found." "macOS:  xcode-select --install" \
      "Fedora: sudo dnf install gcc make pkgconf liburing-devel" "Alpine: sudo apk add build-base pkgconf liburing-dev"
  elif [ "$(uname -s)" = Linux ] && ! pkg-config --exists liburing 2>/dev/null; then
    say "- Note: liburing is not installed, so there will be no uring engine (Debian: liburing-dev, pkg-config)"
  fi
}

# want_packages NEED LOSS PACKAGE... - databases and proxies: where they can't be had, a note is all.
want_packages() {
  local need=$1 loss=$2 missing
  shift 2
  on_debian || return 0
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -eq 0 ]; then
    # shellcheck disable=SC2086 # a list of words
    try_step "Installing packages that $need: $missing" peer-packages.log install_packages $missing && return 0
  fi
  say "- Note: $loss, without: sudo apt-get install --no-install-recommends $missing"
}

# Asked once: each answer is a start of Ruby.
is_preview() {
  if [ -z "${NB_PREVIEW:-}" ]; then NB_PREVIEW=$("$NB_RUBY" --disable-gems -e 'print RUBY_PATCHLEVEL == -1'); fi
  [ "$NB_PREVIEW" = true ]
}

# A preview Ruby loads no precompiled extension. Where some extension did not compile, this file says so.
without_extensions() { echo "$NB_STATE/without-extensions-$NB_RUBY_SERIES"; }

# gems_left_out PART - the Gemfiles' groups that are not installed. The demo has a Gemfile of its own, demo/Gemfile. Without
# libpq there is no pg, without libmariadb no mysql2. Extensions that a preview Ruby can't compile are those of the style
# tools, of the server's company, and of databases.
gems_left_out() {
  local groups=""
  if [ "$1" = demo ]; then groups=test:lint:peers:postgres:mysql; fi
  if ! command -v pg_config >/dev/null; then groups=${groups:+$groups:}postgres:libpq; fi
  if ! command -v mariadb_config >/dev/null; then groups=${groups:+$groups:}mysql; fi
  if is_preview && [ -e "$(without_extensions)" ]; then groups=${groups:+$groups:}lint:peers:postgres:libpq:mysql; fi
  echo "$groups"
}

leave_out_gems() {
  local groups
  unset BUNDLE_WITHOUT BUNDLE_FORCE_RUBY_PLATFORM
  if is_preview; then export BUNDLE_FORCE_RUBY_PLATFORM=true; fi
  groups=$(gems_left_out "$NB_PART")
  if [ -n "$groups" ]; then export BUNDLE_WITHOUT="$groups"; fi
}

install_gems_of_ruby() {
  local what="Installing the development gems into vendor/bundle" log="bundle-$NB_RUBY_SERIES.log"
  if [ "$NB_PART" = demo ]; then what="Installing the demo's gems into vendor/bundle"; fi
  rm -f "$(without_extensions)"
  leave_out_gems
  if is_preview; then
    try_step "$what, with their extensions" "$log" install_gems && return 0
    say "- Note: tests of gems with C extensions will be skipped; .neverblock/log/$log says what did not compile"
    touch "$(without_extensions)"
    leave_out_gems
  fi
  step "$what" "$log" install_gems
}

install_gems() {
  local bundle bundles=$NB_DEMO_BUNDLES
  if [ "$NB_PART" = all ]; then bundles="$bundles $NB_TEST_BUNDLES"; fi
  bundle config set --local path vendor/bundle &&
    bundle config set --local version system &&
    check_bundle &&
    for bundle in $bundles; do
      if [ -f "$bundle" ]; then
        BUNDLE_GEMFILE="$NB_ROOT/$bundle" BUNDLE_PATH="$NB_ROOT/vendor/bundle" BUNDLE_VERSION=system check_bundle || return 1
      fi
    done
}

check_bundle() { bundle check || bundle install --jobs 4 --retry 3; }

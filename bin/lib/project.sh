# Makes the project ready for one Ruby: gems into vendor/bundle, the extension
# into lib/neverblock/SERIES. Expects NB_ROOT as the working folder, NB_STATE,
# NB_RUBY and its companions, ui.sh.

# Bundles beside the project's own: one holds one Rack and one Rails. The older Rails: bin/test --long installs them.
NB_BUNDLES="test/apps/rack2.gemfile test/apps/libpq.gemfile test/apps/tracing.gemfile test/apps/rails/8.1.gemfile"

# One checksum over all that the gems and the compiled extension depend on.
project_digest() {
  {
    printf '%s\n' "$NB_RUBY" "$NB_RUBY_VERSION" "${NEVERBLOCK_EXTCONF:-}" "${BUNDLE_WITHOUT:-}"
    pkg-config --modversion liburing 2>/dev/null || true
    cat Gemfile neverblock.gemspec lib/neverblock/version.rb rakelib/compile.rake
    cat test/apps/*.gemfile test/apps/rails/*.gemfile 2>/dev/null || true
    if [ -d ext ]; then find ext -type f -name '*.[chr]*' | LC_ALL=C sort | while IFS= read -r file; do
      printf '%s\n' "$file"
      cat "$file"
    done; fi
  } | cksum
}

project_ready() {
  [ -s "$NB_STATE/ready-$NB_RUBY_SERIES" ] &&
    [ -n "$(ls lib/neverblock/"$NB_RUBY_SERIES"/neverblock_ext.* 2>/dev/null)" ] &&
    [ -d vendor/bundle ] &&
    [ "$(cat "$NB_STATE/ready-$NB_RUBY_SERIES")" = "$(project_digest)" ]
}

prepare_project() {
  need_compiler
  want_peers
  want_pgbouncer
  install_gems_of_ruby
  step "Compiling the extension for Ruby $NB_RUBY_SERIES" "compile-$NB_RUBY_SERIES.log" bundle exec rake compile
  project_digest >"$NB_STATE/ready-$NB_RUBY_SERIES"
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

# Databases and proxies, which only tests need: where they can't be had, a note is all.
want_peers() {
  local missing
  on_debian || return 0
  # shellcheck disable=SC2086 # a list of words
  missing=$(missing_packages $NB_PEER_PACKAGES)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -eq 0 ]; then
    # shellcheck disable=SC2086
    try_step "Installing packages that tests need: $missing" peer-packages.log install_packages $missing && return 0
  fi
  say "- Note: some tests will be skipped, without: sudo apt-get install --no-install-recommends $missing"
}

is_preview() { "$NB_RUBY" --disable-gems -e 'exit RUBY_PATCHLEVEL == -1'; }

# A preview Ruby loads no precompiled extension. Where some extension did not compile, this file says so.
without_extensions() { echo "$NB_STATE/without-extensions-$NB_RUBY_SERIES"; }

# Without libpq there is no pg. Extensions that a preview Ruby can't compile are those of the style tools, of the server's
# company, and pg.
leave_out_gems() {
  unset BUNDLE_WITHOUT BUNDLE_FORCE_RUBY_PLATFORM
  if ! command -v pg_config >/dev/null; then export BUNDLE_WITHOUT=postgres; fi
  if is_preview; then
    export BUNDLE_FORCE_RUBY_PLATFORM=true
    if [ -e "$(without_extensions)" ]; then export BUNDLE_WITHOUT=lint:peers:postgres; fi
  fi
}

install_gems_of_ruby() {
  local what="Installing the development gems into vendor/bundle" log="bundle-$NB_RUBY_SERIES.log"
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
  local bundle
  bundle config set --local path vendor/bundle &&
    bundle config set --local version system &&
    check_bundle &&
    for bundle in $NB_BUNDLES; do
      if [ -f "$bundle" ]; then
        BUNDLE_GEMFILE="$NB_ROOT/$bundle" BUNDLE_PATH="$NB_ROOT/vendor/bundle" BUNDLE_VERSION=system check_bundle || return 1
      fi
    done
}

check_bundle() { bundle check || bundle install --jobs 4 --retry 3; }

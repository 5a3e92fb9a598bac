# Makes the project ready for one Ruby: gems into vendor/bundle, the extension
# into lib/neverblock/SERIES. Expects NB_ROOT as the working folder, NB_STATE,
# NB_RUBY and its companions, ui.sh.

NB_RACK2=test/apps/rack2.gemfile # one bundle holds one Rack: the tests need both

# One checksum over all that the gems and the compiled extension depend on.
project_digest() {
  {
    printf '%s\n' "$NB_RUBY" "$NB_RUBY_VERSION" "${NEVERBLOCK_EXTCONF:-}"
    pkg-config --modversion liburing 2>/dev/null || true
    cat Gemfile neverblock.gemspec lib/neverblock/version.rb rakelib/compile.rake
    if [ -f "$NB_RACK2" ]; then cat "$NB_RACK2"; fi
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
  step "Installing the development gems into vendor/bundle" "bundle-$NB_RUBY_SERIES.log" install_gems
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

install_gems() {
  bundle config set --local path vendor/bundle &&
    bundle config set --local version system &&
    check_bundle &&
    if [ -f "$NB_RACK2" ]; then
      BUNDLE_GEMFILE="$NB_ROOT/$NB_RACK2" BUNDLE_PATH="$NB_ROOT/vendor/bundle" BUNDLE_VERSION=system check_bundle
    fi
}

check_bundle() { bundle check || bundle install --jobs 4 --retry 3; }

# Finds the source tree of the chosen Ruby, which Ruby's own tests need: the one
# it was built from here, one a version manager kept, an archive to unpack, or the
# distribution's archive where that has exactly this version.
#
#   find_source && echo "$RUBY_SOURCE"
#
# Expects NB_ROOT, NB_STATE, NB_HOME, NB_RUBY_VERSION. RUBY_SOURCE, where set, wins.

find_source() {
  local version=$NB_RUBY_VERSION folder archive
  if [ -n "${RUBY_SOURCE:-}" ]; then
    [ -d "$RUBY_SOURCE/test/ruby" ] || fail "RUBY_SOURCE is \"$RUBY_SOURCE\", which is no source tree of Ruby." \
      "It must hold test/ruby. Unset it to let the commands look for one."
    export RUBY_SOURCE
    return 0
  fi
  for folder in "$NB_HOME/src" "$NB_STATE/source" "$HOME/src" /usr/local/src "${rvm_path:-$HOME/.rvm}/src" \
    "${RBENV_ROOT:-$HOME/.rbenv}/sources/$version"; do
    if [ -d "$folder/ruby-$version/test/ruby" ]; then
      export RUBY_SOURCE="$folder/ruby-$version"
      return 0
    fi
  done
  # ../shared/ruby is where continuous integration offers a second Ruby (.ci/run).
  for archive in "$NB_ROOT/../shared/ruby/ruby-$version".tar.* "$HOME/src/ruby-$version".tar.* \
    "${RBENV_ROOT:-$HOME/.rbenv}/cache/ruby-$version".tar.*; do
    if [ -f "$archive" ]; then
      step "Unpacking the source of Ruby $version" unpack-source.log unpack_source "$archive" "$version"
      export RUBY_SOURCE="$NB_STATE/source/ruby-$version"
      return 0
    fi
  done
  return 1
}

# Into a folder of its own first, so that half a tree is never taken for a whole one.
unpack_source() {
  rm -rf "$NB_STATE/unpack" && mkdir -p "$NB_STATE/unpack" "$NB_STATE/source" &&
    tar -C "$NB_STATE/unpack" -xf "$1" && mv "$NB_STATE/unpack/ruby-$2" "$NB_STATE/source/"
}

# The same, asking the distribution's archive where nothing is at hand.
need_source() {
  local package version upstream
  find_source && return 0
  if on_debian && [ -z "$(missing_packages dpkg-dev xz-utils)" ]; then
    NB_APT="$NB_HOME/apt"
    if try_step "Looking for the source of Ruby $NB_RUBY_VERSION" source-list.log list_source_rubies; then
      while read -r package version upstream; do
        [ "$upstream" = "$NB_RUBY_VERSION" ] || continue
        try_step "Fetching the source of Ruby $upstream" "fetch-$upstream.log" \
          fetch_source "$package" "$version" "$upstream" && find_source && return 0
      done <"$NB_APT/candidates"
    fi
  fi
  say "- Note: no source tree of Ruby $NB_RUBY_VERSION was found, so Ruby's own tests will fail: set RUBY_SOURCE to one"
  return 1
}

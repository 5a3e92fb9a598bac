# The common beginning of bin/setup and the commands that set up first:
#
#   . "$(dirname "$0")/lib/main.sh"
#   nb_setup              # all that the tests need; nb_setup demo: what the demo and programs need
#
# After nb_setup, the chosen Ruby is first in PATH and the gems are those of the
# project. Environment: NEVERBLOCK_RUBY (the Ruby to use), NEVERBLOCK_HOME (where
# a Ruby is built, default ~/.local/share/neverblock).
set -eu

# shellcheck disable=SC3043,SC1091
NB_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
NB_STATE="$NB_ROOT/.neverblock"
NB_LOGS="$NB_STATE/log"
NB_HOME=${NEVERBLOCK_HOME:-${XDG_DATA_HOME:-${HOME:-/root}/.local/share}/neverblock}
HOME=${HOME:-/root}

. "$NB_ROOT/bin/lib/ui.sh"
. "$NB_ROOT/bin/lib/ruby.sh"
. "$NB_ROOT/bin/lib/debian.sh"
. "$NB_ROOT/bin/lib/pgbouncer.sh"
. "$NB_ROOT/bin/lib/source.sh"
. "$NB_ROOT/bin/lib/project.sh"

nb_setup() {
  NB_PART=${1:-all}
  cd "$NB_ROOT"
  mkdir -p "$NB_LOGS"
  choose_ruby
  enter_ruby
  find_source || true
  find_pgbouncer
  if project_ready; then return 0; fi
  nb_lock "$NB_STATE"
  say "Setting up NeverBlock with Ruby $NB_RUBY_VERSION ($NB_RUBY)"
  project_ready || prepare_project
  nb_unlock
}

# The Ruby asked for, else the one remembered, else the best found, else a built one.
choose_ruby() {
  local verdict
  if [ -n "${NEVERBLOCK_RUBY:-}" ]; then
    use_ruby_asked_for
    [ -e "$NB_STATE/env" ] || remember_ruby
    return 0
  fi
  if [ -r "$NB_STATE/env" ]; then
    # shellcheck disable=SC1091
    . "$NB_STATE/env"
    verdict=$(judge_ruby "$NB_RUBY")
    if take_ruby "$verdict"; then return 0; fi
  fi
  if ! find_ruby; then
    nb_lock "$NB_HOME"
    find_ruby || make_ruby
    nb_unlock
  fi
  remember_ruby
}

make_ruby() {
  say "No Ruby of 3.3 or later was found."
  printf '%s' "$NB_REFUSED" | sed 's/^no /  not used: /'
  on_debian || fail "Install Ruby 3.3 or later, then run this again. For example:" \
    "macOS:  brew install ruby" "Fedora: sudo dnf install ruby-devel" "Alpine: sudo apk add ruby-dev ruby-bundler" \
    "any:    mise use --global ruby@3.4      (or rbenv install 3.4.5, asdf install ruby 3.4.5)"
  build_debian_ruby
  find_ruby || fail "The Ruby just built does not work: ${NB_REFUSED:-no reason given}" "Its folder: $NB_HOME"
}

remember_ruby() {
  printf '# Written by bin/setup; delete it to choose a Ruby again.\nNB_RUBY=%q\n' "$NB_RUBY" >"$NB_STATE/env.$$"
  mv "$NB_STATE/env.$$" "$NB_STATE/env"
}

# Everything started from here uses this Ruby, and no setting of another one.
enter_ruby() {
  export NB_RUBY
  unset RUBYOPT RUBYLIB GEM_HOME GEM_PATH BUNDLE_APP_CONFIG BUNDLE_GEMFILE BUNDLE_PATH BUNDLE_BIN_PATH
  PATH="$(dirname "$NB_RUBY"):$PATH"
  export PATH
  export BUNDLE_GEMFILE="$NB_ROOT/Gemfile"
  leave_out_gems
}

# nb_lock FOLDER - one set-up at a time; a lock whose owner is gone is taken over.
# A link, since it comes into being together with what it says: the owner's process.
nb_lock() {
  local owner waited=no
  NB_LOCK="$1/lock"
  mkdir -p "$1" 2>/dev/null && [ -w "$1" ] ||
    fail "Nothing can be written into \"$1\"." "Make it writable, or set NEVERBLOCK_HOME to another folder."
  until ln -s $$ "$NB_LOCK" 2>/dev/null; do
    owner=$(readlink "$NB_LOCK" 2>/dev/null || echo gone)
    if ! kill -0 "$owner" 2>/dev/null; then
      rm -f "$NB_LOCK"
    else
      if [ "$waited" = no ]; then say "Waiting for another bin/setup (process $owner) to finish"; fi
      waited=yes
      sleep 1
    fi
  done
  trap nb_unlock EXIT
}

nb_unlock() {
  rm -f "$NB_LOCK"
  trap - EXIT
}

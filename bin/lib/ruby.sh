# Finds the Ruby to use: the newest stable one of 3.3 or later that can compile
# and load a C extension, wherever Rubies are usually kept.
#
#   find_ruby && echo "$NB_RUBY $NB_RUBY_VERSION"
#
# Expects NB_HOME, the folder with the Rubies that bin/setup built itself.

# Ruby code that judges the Ruby running it. Prints "ok KEY VERSION SERIES PATH",
# where a greater KEY is the better choice, or "no PATH: reason".
NB_JUDGE='
  require "rbconfig"
  path = RbConfig.ruby
  refuse = ->(reason) { puts "no #{path}: #{reason}"; exit }
  numbers = RUBY_VERSION.split(".").map(&:to_i)
  refuse["#{RUBY_ENGINE}, where CRuby is needed"] unless RUBY_ENGINE == "ruby"
  refuse["version #{RUBY_VERSION}, where 3.3 or newer is needed"] if (numbers <=> [3, 3]) < 0
  unless File.exist?(File.join(RbConfig::CONFIG["rubyhdrdir"].to_s, "ruby.h"))
    refuse["version #{RUBY_VERSION} without its C headers (the ruby-dev package)"]
  end
  %w[openssl psych zlib socket].each do |library|
    require library
  rescue LoadError
    refuse["version #{RUBY_VERSION} without #{library}"]
  end
  unless File.exist?(File.join(RbConfig::CONFIG["bindir"], "bundle"))
    refuse["version #{RUBY_VERSION} without Bundler"]
  end
  stable = (RUBY_PATCHLEVEL == -1) ? 0 : 1
  puts "ok #{stable}#{numbers.map { |number| format("%03d", number) }.join} " \
    "#{RUBY_VERSION} #{numbers.first(2).join(".")} #{path}"
'

# The judgement on one path, an empty line where it does not even start.
# --disable-gems keeps it quick; version managers' shims are answered by the Ruby behind them.
judge_ruby() {
  "$1" --disable-gems -W0 -e "$NB_JUDGE" 2>/dev/null </dev/null || true
}

# Every path where a Ruby may be, one a line.
ruby_candidates() {
  local folder
  type -ap ruby 2>/dev/null || true
  for folder in \
    "$NB_HOME"/ruby-* \
    "${RBENV_ROOT:-$HOME/.rbenv}"/versions/* \
    "${MISE_DATA_DIR:-$HOME/.local/share/mise}"/installs/ruby/* \
    "${ASDF_DATA_DIR:-$HOME/.asdf}"/installs/ruby/* \
    "${rvm_path:-$HOME/.rvm}"/rubies/* \
    "$HOME"/.rubies/* /opt/rubies/* /usr/local /usr/local/opt/ruby /opt/homebrew/opt/ruby; do
    if [ -x "$folder/bin/ruby" ]; then printf '%s\n' "$folder/bin/ruby"; fi
  done
}

# Sets NB_RUBY, NB_RUBY_VERSION and NB_RUBY_SERIES from a judgement "ok ...".
take_ruby() {
  local word key
  read -r word key NB_RUBY_VERSION NB_RUBY_SERIES NB_RUBY <<EOF
$1
EOF
  [ "$word" = ok ] && [ -n "$key" ]
}

# Uses NEVERBLOCK_RUBY, which is refused with the reason where it will not do.
use_ruby_asked_for() {
  local path verdict
  path=$(command -v "$NEVERBLOCK_RUBY" 2>/dev/null) ||
    fail "NEVERBLOCK_RUBY is \"$NEVERBLOCK_RUBY\", which is no program." \
      "Set it to a ruby executable, for example /opt/rubies/3.4.5/bin/ruby, or unset it."
  verdict=$(judge_ruby "$path")
  take_ruby "$verdict" ||
    fail "NEVERBLOCK_RUBY=$NEVERBLOCK_RUBY cannot be used: ${verdict:-it does not run.}" \
      "Unset it to let bin/setup choose."
}

# The best of all candidates. Fails where there is none; NB_REFUSED then lists why.
find_ruby() {
  local path verdict best="" verdicts=""
  NB_REFUSED=""
  while IFS= read -r path; do
    [ -n "$path" ] || continue
    verdict=$(judge_ruby "$path")
    case $verdict in
      "ok "*) verdicts="$verdicts$verdict
" ;;
      *) NB_REFUSED="$NB_REFUSED${verdict:-no $path: it does not run}
" ;;
    esac
  done <<EOF
$(ruby_candidates)
EOF
  best=$(printf '%s' "$verdicts" | sort -s -k2,2r | head -n 1)
  [ -n "$best" ] && take_ruby "$best"
}

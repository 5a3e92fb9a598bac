# frozen_string_literal: true

# `neverblock proxy` as a child of the demo: it prints its address, and ends when standard input is closed.
#
#   ruby -Ilib demo/proxy.rb -- --upstream http://127.0.0.1:3000 --ttl 20 --collapse=same-url
require "rbconfig"

root = File.expand_path("..", __dir__)
options = ARGV.drop(ARGV.index("--") + 1) # before it is what all back ends of the demo get
log, output = IO.pipe
command = [RbConfig.ruby, "--disable=gems", "-I", File.join(root, "lib"), File.join(root, "exe", "neverblock"), "proxy", "--listen", "tcp://127.0.0.1:0"]
pid = Process.spawn(*command, *options, out: output, err: output)
output.close
begin
  lines = []
  until (address = lines.last&.slice(%r{ at (http://127\.0\.0\.1:\d+)$}, 1))
    lines << (log.gets or abort "neverblock proxy has ended: #{lines.join}")
  end
  puts address
  $stdout.flush
  Thread.new { nil while log.gets }
  $stdin.read # until the parent closes it, or ends
ensure
  Process.kill(:TERM, pid)
  Process.wait(pid)
end

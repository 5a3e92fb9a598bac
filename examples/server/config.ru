# frozen_string_literal: true

# A page made of several slow answers, streamed lines, and an upload that is counted:
#
#   neverblock serve -C examples/server/neverblock.rb examples/server/config.ru
#   curl http://127.0.0.1:3000/
#   curl http://127.0.0.1:3000/slow                        # waits a second; ask a thousand times at once
#   curl --no-buffer http://127.0.0.1:3000/ticks           # a line now and then
#   curl --data-binary @README.md http://127.0.0.1:3000/words
#
# Plain Rack: nothing in it knows of the server, but for the word `concurrently`.
require "neverblock"

TEXT = {"content-type" => "text/plain; charset=utf-8"}.freeze

# Stands for a database or another service: each answer takes its time.
ask = lambda do |name|
  sleep 0.2
  "#{name} answered\n"
end

home = ->(_env) { [200, TEXT.dup, NeverBlock.concurrently(%w[stock prices reviews], &ask)] }

slow = lambda do |_env|
  sleep 1
  [200, TEXT.dup, ["that took a second\n"]]
end

ticks = lambda do |env|
  count = env["QUERY_STRING"][/count=(\d{1,3})/, 1]&.to_i || 5
  lines = Enumerator.new do |out|
    count.times do |number|
      out << "tick #{number + 1}\n"
      sleep 0.1
    end
  end
  [200, TEXT.dup, lines]
end

words = ->(env) { [200, TEXT.dup, ["#{env["rack.input"].read.split.size} words\n"]] }

map("/") { run ->(env) { (env["PATH_INFO"] == "/") ? home.call(env) : [404, TEXT.dup, ["no such page\n"]] } }
map("/slow") { run slow }
map("/ticks") { run ticks }
map("/words") { run words }

# frozen_string_literal: true

require "json"
require "socket"

module NeverBlockTest
  # Helpers for tests of the server's supervision: a server in `served.folder`, with an app that logs each load in the
  # file "loads", and with its health at the unix socket "health".
  #
  #   include NeverBlockTest::WatchedTable
  #   loads(served, 2)                          # waits for the second
  #   titled(served, /\Asleep\0/)               # => [4711]
  #   stats(served)["workers"]                  # => []
  module WatchedTable
    private

    # @return [Boolean] true once the app has been loaded so often
    def loads(served, count) = served.until_true("load #{count}") { File.size?("#{served.folder}/loads").to_i >= count }

    # @return [Array<Integer>] children of the server with a matching command line
    def titled(served, pattern)
      served.children.select do |pid|
        File.read("/proc/#{pid}/cmdline").match?(pattern)
      rescue SystemCallError
        false # the process has just ended
      end
    end

    # @return [Hash{String=>Object}] of /stats; without workers during a restart
    def stats(served)
      socket = UNIXSocket.new("#{served.folder}/health")
      socket << "GET /stats HTTP/1.0\r\n\r\n"
      JSON.parse(socket.read.split("\r\n\r\n", 2).last)
    rescue SystemCallError
      {"workers" => []}
    ensure
      socket&.close
    end
  end
end

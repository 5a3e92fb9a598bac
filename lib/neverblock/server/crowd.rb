# frozen_string_literal: true

require "etc"

module NeverBlock
  class Server
    # Whether other processes compete with the server for the processors. The kernel divides them by threads, and each
    # loop is one thread.
    #
    #   Crowd.note(2)   # => nil, or "7.4 threads want this machine's 2 processors …"
    # @api private
    module Crowd
      # The load averages of the last one, five and fifteen minutes.
      LOADS = "/proc/loadavg"
      # Workers for each processor that are worth their memory on such a machine.
      ENOUGH = 2

      # @param processes [Integer] of the server
      # @param processors [Integer] of the machine, of which a container may have a part
      # @param loads [String] a path
      # @return [String, nil] a sentence for the operator
      def self.note(processes, processors: Etc.sysconf(Etc::SC_NPROCESSORS_ONLN), loads: LOADS)
        load = File.read(loads).split[1].to_f
        return if load <= processors || processes >= ENOUGH * processors
        "#{load.round(1)} threads want this machine's #{processors} processors (load average of five minutes). Each " \
          "process of this server gets the share of one thread, however many requests it has; here there are " \
          "#{processes}. More workers help, and so does a weight: docs/sizing.md, \"A machine that is shared\""
      rescue SystemCallError
        nil # not Linux
      end
    end
  end
end

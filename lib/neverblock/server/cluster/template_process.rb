# frozen_string_literal: true

require "json"
require_relative "channel"
require_relative "child"

module NeverBlock
  class Server
    module Cluster
      # A template, as the supervisor sees it: started with the supervisor's own command, so that a new one has what the
      # working directory and its Gemfile.lock hold by then.
      #
      #   template = TemplateProcess.start(sockets, launch)
      #   template.wait_ready(60)    # => true: the app is loaded
      # @api private
      class TemplateProcess < Child
        # Tells the new process what it is: the descriptors of its channel and of the sockets, with their URIs.
        VARIABLE = "NEVERBLOCK_TEMPLATE"
        # Seconds in which it has tried what its supervisor would open.
        REHEARSAL = 10

        # @param sockets [Hash{IO=>String}] listening sockets and their URIs
        # @param launch [Launch]
        # @return [TemplateProcess]
        # @raise [SystemCallError] if it can't be started
        def self.start(sockets, launch)
          ours, theirs = Channel.pair
          handed = {channel: theirs.io.fileno, sockets: sockets.to_h { |socket, uri| [socket.fileno, uri] }}
          pid = launch.spawn({VARIABLE => JSON.generate(handed)}, [theirs.io, *sockets.keys])
          new(ours).tap { |template| template.pid = pid }
        ensure
          theirs&.close
        end

        # What this process was handed, if it is a template.
        # @param env [Hash] from which it is taken away
        # @return [Hash{Symbol=>Object}, nil] :channel and :sockets
        def self.handed(env)
          text = env.delete(VARIABLE) or return
          handed = JSON.parse(text)
          {channel: handed.fetch("channel"), sockets: handed.fetch("sockets").transform_keys(&:to_i)}
        end

        # @return [String, nil] why the app could not be loaded
        attr_accessor :failure

        # @return [Array<WorkerProcess>] that it was asked for, and whose end it has not told
        def workers = @workers ||= []

        # @param message [Hash{Symbol=>Object}] what it says of a worker
        # @return [void]
        def tells(message)
          case message[:event]
          when "forked" then workers.find { |worker| worker.slot.number == message[:slot] && worker.pid.nil? }&.pid = message[:pid]
          when "ended" then workers.find { |worker| worker.pid == message[:pid] }&.then { |worker| workers.delete(worker).status = message[:status] }
          end
        end

        # Has it try what the supervisor of its configuration would open.
        # @param held [Hash{Symbol=>String}] what the present one has open: Places#rehearse
        # @return [Array<String>] what could not be had
        def rehearse(held)
          tell({do: "rehearse", held:})
          rehearsals.pop(timeout: REHEARSAL) || ["#{self} has not answered within #{REHEARSAL} s"]
        end

        # @param failures [Array<String>] its answer to that
        # @return [void]
        def rehearsed(failures) = rehearsals << failures

        # Waits for its status.
        # @return [String] what is to be said of its end
        def exit_report = "#{self} ended#{" (#{status})" if wait_status(1)}"

        # @return [String]
        def to_s = "template [#{pid}]"

        # It ends when its workers have.
        # @return [void]
        def dismiss = tell({do: "end"})

        private

        def rehearsals = @rehearsals ||= Thread::Queue.new
      end
    end
  end
end

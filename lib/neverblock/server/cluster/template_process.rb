# frozen_string_literal: true

require "json"
require_relative "channel"
require_relative "child"

module NeverBlock
  class Server
    module Cluster
      # The supervisor's view of a template. It is started with the supervisor's own command, so that a new one uses the
      # code and the Gemfile.lock that are in the working directory at that time.
      #
      #   template = TemplateProcess.start(sockets, launch)
      #   template.wait_ready(60)    # => true: the app is loaded
      # @api private
      class TemplateProcess < Child
        # Has the descriptors of the channel and of the sockets with their URIs, as JSON; it tells a process that it is
        # a template.
        VARIABLE = "NEVERBLOCK_TEMPLATE"
        # Seconds for an answer to `rehearse`.
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

        # What the supervisor handed to this process, if it is a template.
        # @param env [Hash] the environment; the variable is deleted from it
        # @return [Hash{Symbol=>Object}, nil] :channel and :sockets
        def self.handed(env)
          text = env.delete(VARIABLE) or return
          handed = JSON.parse(text)
          {channel: handed.fetch("channel"), sockets: handed.fetch("sockets").transform_keys(&:to_i)}
        end

        # @return [String, nil] why the app could not be loaded
        attr_accessor :failure

        # @return [Array<WorkerProcess>] workers that were requested from it and whose end it has not reported
        def workers = @workers ||= []

        # @param message [Hash{Symbol=>Object}] its report about a worker
        # @return [void]
        def tells(message)
          case message[:event]
          when "forked"
            workers.find { |worker| worker.slot.number == message[:slot] && worker.pid.nil? }&.pid = message[:pid]
          when "ended"
            worker = workers.find { |one| one.pid == message[:pid] }
            workers.delete(worker).status = message[:status] if worker
          end
        end

        # Lets it try to open what the supervisor of its configuration would open.
        # @param held [Hash{Symbol=>String}] what the present supervisor has open: Places#rehearse
        # @return [Array<String>] files and addresses that could not be opened
        def rehearse(held)
          tell({do: "rehearse", held:})
          rehearsals.pop(timeout: REHEARSAL) || ["#{self} has not answered within #{REHEARSAL} s"]
        end

        # @param failures [Array<String>] its answer to that
        # @return [void]
        def rehearsed(failures) = rehearsals << failures

        # Waits up to a second for its exit status.
        # @return [String] one line about its end
        def exit_report = "#{self} ended#{" (#{status})" if wait_status(1)}"

        # @return [String]
        def to_s = "template [#{pid}]"

        # It ends when its workers have ended.
        # @return [void]
        def dismiss = tell({do: "end"})

        private

        def rehearsals = @rehearsals ||= Thread::Queue.new
      end
    end
  end
end

# frozen_string_literal: true

require "json"
require_relative "../app_error"
require_relative "../log_text"

module NeverBlock
  class Server
    module Cluster
      # Has the next program read its configuration, in a process of its own, while this program serves. After the
      # hand-over it would be too late: this program is gone then.
      #
      #   trial = Trial.new(launch, 60)
      #   trial.call({control: "/srv/shop/control.sock"})    # => nil, or why the next program could not start
      #
      # That process is started with this program's own command, and finds that it is a trial:
      #
      #   Trial.handed(ENV)&.then { |handed| Trial.tell(handed) { |held| ["config/neverblock.rb:2: …"] } }    # => false
      # @api private
      class Trial
        # Has the descriptor on which to tell the mistakes, and what the present program has open, as JSON.
        VARIABLE = "NEVERBLOCK_TRIAL"
        # Bytes of what is told: a pipe takes so many without a reader.
        MOST = 32 << 10
        # Is told if nothing is wrong. An exit status of 0 may come of an `exit` in the configuration.
        GOOD = "\0"
        private_constant :MOST, :GOOD

        class << self
          # @param env [Hash] the environment; the variable is deleted from it
          # @return [Hash{Symbol=>Object}, nil] for {tell}; nil: this process is no trial
          def handed(env)
            text = env.delete(VARIABLE)
            JSON.parse(text, symbolize_names: true) if text
          end

          # @param handed [Hash{Symbol=>Object}]
          # @yieldparam held [Hash{Symbol=>String}] what the present program has open: Places#rehearse
          # @yieldreturn [Array<String>] mistakes
          # @return [Boolean] whether there are none
          def tell(handed)
            mistakes = mistakes_of { yield handed[:held] }
            IO.open(handed[:to], "wb") { |io| io.write(mistakes.empty? ? GOOD : mistakes.join("\n").b[0, MOST]) }
            mistakes.empty?
          end

          private

          def mistakes_of
            yield
          rescue *AppError::CAUSES => error
            [(Error === error) ? error.message : LogText.error(error)]
          end
        end

        # @param launch [Launch]
        # @param limit [Numeric] seconds
        def initialize(launch, limit)
          @launch = launch
          @limit = limit
        end

        # @param held [Hash{Symbol=>String}] what this program has open: Places#rehearse
        # @return [String, nil] why the next program could not start
        def call(held = {})
          reader, writer = IO.pipe
          pid = @launch.spawn({VARIABLE => JSON.generate({to: writer.fileno, held:})}, [writer])
          writer.close
          status = NeverBlock.timeout(@limit) { wait_for(pid) }
          ended = true
          reason(status, reader)
        rescue TimeoutError
          "its configuration was not read within #{@limit} s (boot_timeout)"
        rescue => error
          LogText.error(error) # whatever it is, this program goes on
        ensure
          end_it(pid) if pid && !ended
          [reader, writer].each { |io| io&.close }
        end

        private

        # An app may reap all child processes, or have the kernel do it (a handler for CHLD): then the status is lost.
        # @return [Process::Status, nil]
        def wait_for(pid)
          Process.wait2(pid).last
        rescue Errno::ECHILD
          nil
        end

        # A process that could tell nothing has written into the standard error.
        # @return [String, nil]
        def reason(status, reader)
          text = reader.read_nonblock(MOST, exception: false)
          return if text == GOOD
          return LogText.utf8(text) if String === text && !text.empty?
          "the process that reads its configuration has ended#{" (#{status})" if status}. The standard error may " \
            "have the reason"
        end

        def end_it(pid)
          Process.kill(:KILL, pid)
          Process.detach(pid)
        rescue Errno::ESRCH
          nil # it has just ended
        end
      end
    end
  end
end

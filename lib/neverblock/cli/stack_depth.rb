# frozen_string_literal: true

require "rbconfig"

module NeverBlock
  class CLI
    # Gives fibers the stacks that are asked for. Ruby reads their sizes from its environment when it boots and never
    # again, so this process starts itself once more, as the same process with the same arguments.
    #
    #   StackDepth.new(vm: 1 << 20, machine: 2 << 20).ensure   # may not return
    # @api private
    class StackDepth
      # What Ruby reads.
      VARIABLES = {vm: "RUBY_FIBER_VM_STACK_SIZE", machine: "RUBY_FIBER_MACHINE_STACK_SIZE"}.freeze
      # Says that it has been done, and what was in the environment before.
      GUARD = "NEVERBLOCK_STACK_DEPTH"

      # @param vm [Integer, nil] bytes; nil: Ruby's own
      # @param machine [Integer, nil]
      # @param env [Hash] the environment
      # @param sizes [Hash] what this Ruby has
      # @param command_line [Array<String>, nil] this process's
      def initialize(vm:, machine:, env: ENV, sizes: RubyVM::DEFAULT_PARAMS, command_line: StackDepth.command_line)
        @wanted = {vm:, machine:}
        @env = env
        @sizes = sizes
        @command_line = command_line
      end

      # Goes on in the process that has the stacks.
      # @return [void]
      def ensure
        if @env[GUARD]
          clean
        elsif needed.any?
          Process.exec(additions, *command)
        end
      rescue SystemCallError => error
        warn "neverblock: stack_depth has no effect: Ruby can't be started again (#{error.message})"
      end

      # @return [Hash{String=>String}] the variables that are missing
      def needed
        @needed ||= VARIABLES.filter_map { |stack, variable|
          size = @wanted[stack]
          [variable, size.to_s] if size && !@env[variable] && @sizes.fetch(:"fiber_#{stack}_stack_size") < size
        }.to_h
      end

      # @return [Hash{String=>String}] what the new process's environment has more
      def additions = {**needed, GUARD => needed.keys.join(" ")}

      # @return [Array<String>] this process's own command
      def command
        program, *arguments = @command_line
        return [RbConfig.ruby, *arguments] if program && File.basename(program).start_with?("ruby")
        # A title was set, as `bundle exec` does, or this system does not tell.
        jit = ["--yjit"] if defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?
        [RbConfig.ruby, *jit, $PROGRAM_NAME, *ARGV]
      end

      # @return [Array<String>, nil] as the kernel knows it: interpreter options and all
      def self.command_line
        File.read("/proc/self/cmdline").split("\0")
      rescue SystemCallError
        nil
      end

      private

      # Programs that the app starts shall not find them.
      def clean
        @env.delete(GUARD).split.each { |variable| @env.delete(variable) }
      end
    end
  end
end

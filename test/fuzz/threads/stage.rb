# frozen_string_literal: true

require "json"
require "monitor"
require "neverblock"
require "socket"
require "timeout"
require "tmpdir"
require_relative "account"
require_relative "hosts"

module NeverBlockFuzz
  # Runs a program in a process of its own, under plain threads or under fibers, and opens its gates as the other
  # process says.
  #
  #   Stage.new(text, "fibers", commands, answers).call     # in a forked process, which Trial ends
  #
  # A program is Ruby: strands, whose steps are behind gates. A step whose number has passed before its strand comes to
  # it is left out.
  #
  #   one = strand do
  #     at(1) { r1, w1 = IO.pipe }
  #     at(3) { r1.readpartial(5) }
  #   end
  class Stage
    # @param text [String] the program
    # @param host [String] a name of Hosts
    # @param commands [IO] a line for each command: a number opens that gate, "tell" and "end" ask for the notes
    # @param answers [IO] gets a line of JSON for each "tell" and "end"
    def initialize(text, host, commands, answers)
      @text = text
      @host = Hosts.const_get(host.capitalize).new
      @commands = commands
      @answers = answers
      @gates = Hash.new { |gates, number| gates[number] = Thread::Queue.new }
      @notes = []
      @begun = []
      @now = @strands = 0
    end

    # @return [void] when the commands end
    def call
      Thread.report_on_exception = false
      Dir.mktmpdir("neverblock-fuzz") do |folder|
        @folder = folder
        steering = nil
        @host.run do
          @account = Account.new(program)
          open_gate(0)
          steering = Thread.new { steer }
        end
        steering.join
      end
    end

    # ---- the words of a program ----
    # @return [Thread, NeverBlock::Task]
    def strand(&block)
      number = @strands += 1
      @host.strand { live(number, &block) }
    end

    # Runs a step, when its gate opens.
    # @return [Object, nil]
    def at(number)
      noted = false
      note = ->(text) { (noted = true) && @notes << [number, text] }
      @gates[number].pop
      return note.call("too late").then { nil } if @now > number
      @begun << number
      value = yield
      note.call(Account.show(value))
      value
    rescue StandardError => error # standard:disable Style/RescueStandardError -- not others, which unwind
      note.call(Account.show(error))
      nil
    ensure
      note.call("unwound") unless noted
    end

    # @return [String] of the program's own folder
    def path(name) = File.join(@folder, name)

    # @param handle [Thread, NeverBlock::Task] a strand
    # @param error [Exception]
    # @return [void]
    def raise_in(handle, error) = @host.raise_in(handle, error) && nil

    # @param handle [Thread, NeverBlock::Task] a strand
    # @return [void]
    def kill(handle) = @host.kill(handle) && nil

    private

    def program = eval("#{@text}\nbinding", binding, __FILE__, __LINE__) # standard:disable Security/Eval

    def live(number)
      ended = "unwound"
      @gates[0].pop
      yield
      ended = "ended"
    rescue StandardError => error # standard:disable Style/RescueStandardError
      ended = Account.show(error)
    ensure
      unlock
      @notes << ["strand #{number}", ended]
    end

    # What a thread holds in the end, Ruby unlocks, though not always all of it. What a task holds stays locked under any
    # scheduler.
    def unlock
      @account.locks.each do |lock|
        lock.is_a?(Monitor) ? (lock.exit while lock.mon_owned?) : (lock.unlock if lock.owned?)
      end
    end

    def steer
      while (command = @commands.gets)
        case command.chomp
        when "tell" then tell
        when "end" then tell(@account.leftovers)
        else open_gate(command.to_i)
        end
      end
    end

    def open_gate(number)
      @now = number
      @gates[number].close
    end

    # A gate that opens late lets its strand pass at once.
    def tell(leftovers = nil)
      @answers.puts(JSON.generate({notes: @notes.shift(@notes.size), begun: @begun.shift(@begun.size), leftovers:}))
    end
  end
end

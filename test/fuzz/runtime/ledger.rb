# frozen_string_literal: true

module NeverBlockFuzz
  # The program's record, and what must be true of it in the end. Each failed check has a kind, so that a test can tell
  # whether the intended check finds a planted defect.
  #
  #   ledger.fail(:sleep_short, "sleep(0.01) took 0.002 s")
  class Ledger
    # A failed check.
    Failure = Struct.new(:kind, :message)
    # A region that was entered and must be left once. `strict`: whether its ensure must have run.
    Region = Struct.new(:entered, :left, :strict, :title)
    # A child process that was started.
    Child = Struct.new(:pid, :code, :statuses)
    # A plain thread that was started, and its value.
    Helper = Struct.new(:thread, :value)
    # A file: its path and expected bytes. `unsure`: an interrupt from another thread has cut off the record of them.
    Kept = Struct.new(:path, :content, :title, :unsure)

    # @return [Array<Thread>] the threads that run loops now
    attr_reader :loop_threads

    attr_reader :failures, :regions, :children, :helpers, :strands, :raised, :reasons, :files, :counts

    # @return [Integer] interrupts from other threads, which strike anywhere in the code, this file included
    attr_reader :interrupts

    def initialize
      @failures = []
      @regions = []
      @children = {}
      @helpers = []
      @strands = []
      @files = []
      @loop_threads = []
      @raised = {}.compare_by_identity
      @reasons = {}.compare_by_identity
      @pushed = {}
      @received = Hash.new(0)
      @unsure = []
      @counts = Hash.new(0)
      @interrupts = 0
    end

    # @return [Integer] a new number each time, in every thread
    def number = Object.new.object_id

    # Records a failed check and lets the program go on.
    def fail(kind, message)
      @failures << Failure.new(kind, message)
    end

    # Fails unless the condition holds.
    def check(kind, condition, message = nil)
      fail(kind, message || yield) unless condition
    end

    # An interrupt from another thread may cut off any line, so a count may be short by one for each.
    def interrupted
      @interrupts += 1
    end

    # @return [Integer] the number of a new region
    def enter(title, strict)
      @regions << Region.new(1, 0, strict, title)
      @regions.size - 1
    end

    def leave(region)
      @regions[region].left += 1
    end

    # ---- items of queues ----
    # Before the push: the item may be in the queue from now on.
    def pushing(item) = @pushed[item] = :begun

    def pushed(item) = @pushed[item] = :done

    # The push was interrupted before it took effect.
    def not_pushed(item) = @pushed[item] = :interrupted

    def received(item) = @received[item] += 1

    # A pop was interrupted by another thread: the item, if there was one, may be lost.
    def unsure_pop(what) = @unsure << what

    # Compares the pushed items with the received ones and those still in the queues.
    # @param left [Array] items that are still in the queues
    def settle_items(left)
      left.each { |item| @received[item] += 1 }
      @received.each do |item, times|
        fail(:queue_item, "item #{item} was received #{times} times") if times > 1
        fail(:queue_item, "item #{item.inspect} was never pushed") unless @pushed.key?(item)
        fail(:queue_item, "item #{item} is in the queue, though its push was interrupted") if @pushed[item] == :interrupted && @interrupts.zero?
      end
      missing = @pushed.select { |item, state| state == :done && @received[item].zero? }.keys
      return if missing.size <= [@unsure.size, @interrupts].min
      fail(:queue_item, "items #{missing.first(5).inspect} were pushed and are nowhere")
    end

    # ---- children ----
    def started(pid, code) = @children[pid] = Child.new(pid, code, [])

    def status(pid, status)
      child = @children[pid]
      return fail(:child_status, "the status of process #{pid} arrived, which was never started") unless child
      child.statuses << status
    end

    def settle_children
      lost = []
      @children.each_value do |child|
        child.statuses << Process.wait2(child.pid).last if child.statuses.empty?
      rescue Errno::ECHILD
        lost << child
      end
      lost.each { |child| fail(:child_status, "the status of process #{child.pid}, which exits with #{child.code.inspect}, was lost") } if lost.size > @interrupts
      @children.each_value do |child|
        fail(:child_status, "process #{child.pid} has #{child.statuses.size} statuses") if child.statuses.size > 1
        next unless child.code && (status = child.statuses.first)
        fail(:child_status, "process #{child.pid} exits with #{child.code}: #{status.inspect}") unless status.exitstatus == child.code
      end
      pid = Process.wait(-1, Process::WNOHANG)
      fail(:child_left, "a child process is left: #{pid.inspect}") if @interrupts.zero? # one may arrive right after the fork
    rescue Errno::ECHILD
      nil # there is none
    end

    # ---- at the end ----
    def settle_regions
      doubled = @regions.select { |region| region.left > 1 }
      doubled.each { |region| fail(:ensure_count, "an ensure ran #{region.left} times: #{region.title}") }
      missing = @regions.select { |region| region.left.zero? && region.strict }
      return if missing.size <= @interrupts
      missing.each { |region| fail(:ensure_count, "an ensure never ran: #{region.title}") }
    end

    def settle_strands
      @strands.each do |strand|
        fail(:task_alive, "#{strand.inspect} is alive after its run: #{strand.task.inspect}") if strand.task&.alive?
      end
    end

    def settle_files
      @files.each do |file|
        next if file.unsure && @interrupts > 0
        content = File.binread(file.path)
        next if content == file.content
        at = (0...[content.bytesize, file.content.bytesize].max).find { |index| content.getbyte(index) != file.content.getbyte(index) }
        fail(:file_content, "#{file.title}: #{content.bytesize} bytes, expected #{file.content.bytesize}; they differ from byte #{at}")
      end
    end
  end
end

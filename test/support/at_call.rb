# frozen_string_literal: true

module NeverBlockTest
  # Another process's step, or an exception, in the middle of an operation that waits nowhere: when it calls a method
  # for the first time, or when that method returns.
  #
  #   include NeverBlockTest::AtCall
  #
  #   at_call(Files, :remove, -> { throw :out }) { store.purge(key) }
  #   at_return(Fills, :find, ->((fill, _)) { fill.join }) { get("/a") }
  #   assert_equal 0, calls(Files, :remove) { store.read(key) }
  module AtCall
    private

    # @param owner [Module] of the method
    # @param step [#call]
    # @return [Object] the block's value
    def at_call(owner, name, step, &) = at(:call, owner, name, ->(_) { step.call }, &)

    # @param step [#call] gets what the method returns
    # @return [Object] the block's value
    def at_return(owner, name, step, &) = at(:return, owner, name, ->(point) { step.call(point.return_value) }, &)

    # @return [Integer] how often the block calls the method, in any thread
    def calls(owner, name, &)
      count = 0
      TracePoint.new(:call) { count += 1 }.enable(target: owner.instance_method(name), &)
      count
    end

    def at(event, owner, name, step, &)
      first = true
      trace = TracePoint.new(event) do |point|
        next unless first
        first = false
        step.call(point)
      end
      trace.enable(target: owner.instance_method(name), &)
    ensure
      flunk "#{owner}##{name} was not called" if first
    end
  end
end

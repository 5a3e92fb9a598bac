# frozen_string_literal: true

module NeverBlockTest
  # Another process's step, or an exception, in the middle of an operation that waits nowhere: when it calls a method
  # for the first time, or when that method returns.
  #
  #   include NeverBlockTest::AtCall
  #
  #   at_call(Files, :remove, -> { throw :out }) { store.purge(key) }
  #   at_return(Fills, :find, ->((fill, _)) { fill.join }) { get("/a") }
  module AtCall
    private

    # @param owner [Module] of the method
    # @param step [#call]
    # @return [Object] the block's value
    def at_call(owner, name, step, &) = at(:call, owner, name, ->(_) { step.call }, &)

    # @param step [#call] gets what the method returns
    # @return [Object] the block's value
    def at_return(owner, name, step, &) = at(:return, owner, name, ->(point) { step.call(point.return_value) }, &)

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

# frozen_string_literal: true

module NeverBlock
  class Cache
    # State that middleware outside of the cache has given to the request's fiber: a tenant, a user, a database, a
    # locale. A fetch runs in a fiber of its own, without this state, so that the app would make another response. A
    # request with such a state calls the app by itself.
    #
    #   OuterState.name([])               # => nil
    #   Thread.current[:tenant] = "a"
    #   OuterState.name([])               # => "tenant"
    #   OuterState.name(["tenant"])       # => nil
    # @api private
    module OuterState
      # Fiber-locals on which no response depends: of Ruby, servers and monitoring.
      KNOWN = /\A(?:_|neverblock|puma|with_force_shutdown|bigdecimal|mutex|inspect_key|minitest|sentry|rollbar|newrelic|
        new_relic|datadog|ddtrace|appsignal|skylight|scout|honeybadger|bugsnag|airbrake|otel|opentelemetry|elastic|
        lograge|activesupport_tagged_logging_tags|rack_mini_profiler)/ix
      private_constant :KNOWN

      class << self
        # Of a framework: returns the name of a further state that a fetch would not have, or nil.
        # @return [#call, nil]
        attr_accessor :probe

        # @param allow [Array<String>] names of states on which no response depends
        # @return [String, nil] the name of a state
        def name(allow)
          Thread.current.keys.each do |key|
            name = key.to_s
            return name unless KNOWN.match?(name) || allow.include?(name)
          end
          name = probe&.call
          name unless name.nil? || allow.include?(name)
        end
      end
    end
  end
end

# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Lines about upstreams that get no more requests, or requests again: one for each change, of which {Backend#tell?}
    # leaves some out.
    #
    #   UpstreamLines.left_alone(log, env["rack.errors"], backend, 0.8, error)
    #   # … neverblock proxy: upstream http://10.0.0.5:3000: left alone, for 0.8 s at first, since 3 requests in a row …
    #   UpstreamLines.back(log, env["rack.errors"], backend)
    #   # … neverblock proxy: upstream http://10.0.0.5:3000: requests again, since it has responded
    # @api private
    module UpstreamLines
      class << self
        # @param log [Log]
        # @param errors [#write, nil]
        # @param backend [Backend]
        # @param seconds [Float] the first pause. Later ones are longer, and have no line
        # @param error [Error] the last failure
        # @return [void]
        def left_alone(log, errors, backend, seconds, error)
          count = backend.failures
          failed = (count == 1) ? "a request failed:" : "#{count} requests in a row failed. The last:"
          pause = "#{seconds.round(1)} s at first"
          write(log, errors, backend, "left alone, for #{pause}, since #{failed} #{error.message}")
        end

        # @param log [Log]
        # @param errors [#write, nil]
        # @param backend [Backend]
        # @return [void]
        def back(log, errors, backend) = write(log, errors, backend, "requests again, since it has responded")

        # What came from the upstream is escaped.
        # @param log [Log]
        # @param errors [#write, nil]
        # @param backend [Backend]
        # @param text [String]
        # @return [void]
        def write(log, errors, backend, text)
          log.warn("upstream #{backend.upstream}: #{ErrorLines.plain(text)}", errors)
        end
      end
    end
  end
end

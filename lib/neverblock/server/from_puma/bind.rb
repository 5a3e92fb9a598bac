# frozen_string_literal: true

require_relative "../address"

module NeverBlock
  class Server
    module FromPuma
      # An address in Puma's notation.
      #
      #   bind = Bind.new("unix://tmp/puma.sock?umask=0111&backlog=64", "/srv/shop")
      #   bind.uri        # => "unix:///srv/shop/tmp/puma.sock?mode=0666"
      #   bind.backlog    # => 64
      # @api private
      class Bind
        # @param url [String]
        # @param home [String] the directory of relative paths
        # @param proxy [Boolean] whether connections begin with a PROXY header
        def initialize(url, home, proxy: false)
          @address, query = url.to_s.split("?", 2)
          @options = query.to_s.split("&").to_h { |pair| pair.split("=", 2).then { |name, value| [name, value.to_s] } }
          @home = home
          @proxy = proxy
        end

        # @return [String, nil] why this server can't have such an address
        def refusal
          case @address
          when %r{\Assl://} then Address::NO_TLS
          when %r{\Aunix:(?://)?@}
            "a unix socket has a path here: abstract ones are open to every user of the machine"
          end
        end

        # @return [String] the value for `bind`
        def uri
          path = @address[%r{\Aunix:(?://)?(.+)\z}, 1]
          place = path ? "unix://#{File.expand_path(path.gsub("%20", " "), @home)}" : @address
          options = [*("mode=#{mode}" if path && mode), *("proxy=required" if @proxy)]
          options.empty? ? place : "#{place}?#{options.join("&")}"
        end

        # @return [Integer, nil]
        def backlog = @options["backlog"]&.then { |text| Integer(text) }

        private

        def mode
          return @options["mode"] if @options["mode"]
          umask = @options["umask"] or return
          format("%04o", 0o777 & ~Integer(umask))
        end
      end
    end
  end
end

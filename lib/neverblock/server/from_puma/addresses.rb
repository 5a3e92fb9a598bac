# frozen_string_literal: true

require_relative "bind"
require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's directives for addresses.
      # @api private
      module Addresses
        extend Topic

        TITLE = "Where it listens"

        word :bind, <<~TEXT, here: %i[bind backlog] do |url|
          The same. A relative `unix://` path begins in `directory`; `umask=` becomes `mode=`, `backlog=` that of all
          addresses; `low_latency=` has no effect, since TCP_NODELAY is always set. `ssl://` and abstract unix sockets
          are left out, with a log line; if no address is left, the server does not start.
        TEXT
          bind = bind_at(url)
          next leave_out(bind.refusal) if bind.refusal
          [add(:bind, bind.uri), bind.backlog && set(:backlog, bind.backlog)].compact.join(", ")
        end

        word :port, <<~TEXT, here: :bind do |port, host = nil|
          An address; without a host all of the machine, as with Puma: `[::]`, which includes IPv4, or `0.0.0.0` if
          there is no IPv6. Without any address the default is `tcp://127.0.0.1:3000` or `$PORT`, not Puma's 9292.
        TEXT
          host ||= last(:set_default_host) || Translation.everywhere
          host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
          add(:bind, bind_at("tcp://#{host}:#{Integer(port)}").uri)
        end

        word(:ssl_bind, <<~TEXT) { |_host, _port, _options = {}| leave_out }
          There is no TLS here yet: let it end in nginx, HAProxy or Thruster. The address is left out; if none is
          left, it does not start.
        TEXT

        word :set_default_host, "The host of `port`.", here: :bind
        word :default_host, "Gives the host of `port`."

        word :clear_binds!, "Discards the addresses so far.", here: :bind do
          forget_addresses
          nil
        end

        word :bind_to_activated_sockets, <<~TEXT, here: :bind do |which = true|
          Sockets from systemd are always used, for the addresses that `bind` names, or all of them if it names none; a
          socket that no `bind` names ends the start. With `"only"` the file's addresses are discarded if systemd
          passes sockets.
        TEXT
          forget_addresses if which.to_s == "only" && @env["LISTEN_FDS"].to_i > 0
          nil
        end

        private

        def bind_at(url)
          remote = last(:set_remote_address)
          Bind.new(url, @directory || Dir.pwd, proxy: Hash === remote && remote.key?(:proxy_protocol))
        end

        def forget_addresses
          @configuration.unset(:bind)
          @lists.delete(:bind)
          @left_out.clear
        end

        def leave_out(reason = @call.row.plain)
          @left_out << "#{@call.place}: #{@call}"
          "left out: #{reason}"
        end
      end
    end
  end
end

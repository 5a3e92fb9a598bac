# frozen_string_literal: true

require "ipaddr"

module NeverBlock
  class Proxy
    # The options of a {Proxy}, checked, with their defaults.
    #
    #   settings = Settings.new(host: :upstream, trusted_clients: ["10.0.0.0/8"])
    #   settings.max_request_body    # => 1073741824
    # @api private
    class Settings
      COUNT = ValueType.count(least: 1)
      SECONDS = ValueType.seconds
      SIZE = ValueType.bytes(least: 1)
      FLAG = ValueType.flag
      NAME = /\A[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\z/
      # Protocols that are no tunnel of the client's to the upstream, but another way to speak HTTP past the proxy.
      NEVER = %w[h2c h2 http tls].freeze

      HOST = ValueType.new(":keep, :upstream, or a host and perhaps a port") do |value|
        known = %i[keep upstream].include?(value) || (String === value && Upstream::AUTHORITY.match?(value))
        known ? value : ValueType::REFUSED
      end
      VIA = ValueType.new("a name of letters, digits, \".\" and \"-\", which no other proxy on the way has") do |value|
        (String === value && NAME.match?(value)) ? value : ValueType::REFUSED
      end
      NETWORKS = ValueType.new("a list of addresses and networks, as in [\"127.0.0.1\", \"10.0.0.0/8\"]") do |value|
        Array(value).map { |text| IPAddr.new(text.to_s) }
      rescue IPAddr::Error
        ValueType::REFUSED
      end
      HOSTS = ValueType.new("a list of host names, each perhaps with a port") do |value|
        names = Array(value)
        good = names.any? && names.all? { |name| String === name && Upstream::AUTHORITY.match?(name) }
        good ? names.map(&:downcase).freeze : ValueType::REFUSED
      end
      PROTOCOLS = ValueType.new("a list of protocols, as in [\"websocket\"], without those of HTTP and TLS") do |value|
        names = Array(value)
        good = names.all? { |name| String === name && NAME.match?(name) && !NEVER.include?(name.downcase) }
        good ? names.map(&:downcase).freeze : ValueType::REFUSED
      end

      HASH_BY = ValueType.new(":url, :client, or the name of a field of requests") do |value|
        known = %i[url client].include?(value) || (String === value && NAME.match?(value))
        known ? value : ValueType::REFUSED
      end
      LOAD = ValueType.new("a number, 1 or more") do |value|
        (Numeric === value && value.real? && value.finite? && value >= 1) ? value : ValueType::REFUSED
      end
      HEALTH = ValueType.new("a Hash, as in {path: \"/up\", every: 5}") do |value|
        (Hash === value) ? Probe.build(value) : ValueType::REFUSED
      end

      LOG = ValueType.new("an object with warn, such as a Logger") do |value|
        value.respond_to?(:warn) ? value : ValueType::REFUSED
      end

      # Each with its type and default.
      OPTIONS = {
        host: [HOST, :keep], hosts: [HOSTS.optional, nil],
        forwarded: [ValueType.one_of(*Forwarded::KINDS), :x_forwarded], trusted_clients: [NETWORKS, []],
        via: [VIA.optional, nil], proxy_status: [ValueType.one_of(:errors, :all, :none), :errors],
        early_hints: [FLAG, true],
        min_request_rate: [COUNT.optional, 500], max_request_body: [SIZE.optional, 1 << 30],
        max_response_body: [SIZE.optional, nil], max_response_head: [SIZE, 64 << 10],
        upgrades: [PROTOCOLS, ["websocket"]], tunnel_idle: [SECONDS, 300], max_tunnels: [COUNT, 1_000],
        max_failures: [COUNT, 3], out_for: [SECONDS, 1], longest_out: [SECONDS, 30], max_tries: [COUNT, 3],
        balance: [ValueType.one_of(:least, :hash), :least], hash_by: [HASH_BY, :url], hash_load: [LOAD, 1.25],
        health: [HEALTH.optional, nil], log: [LOG.optional, nil]
      }.freeze
      # Options of each {ConnectionPool}.
      POOL = %i[max_connections max_idle idle_timeout max_age max_waiting].freeze
      # Options of each {Upstream} that is given as a String.
      UPSTREAM = %i[timeouts ca_file server_name proxy_protocol].freeze
      private_constant :COUNT, :SECONDS, :SIZE, :FLAG, :NAME, :NEVER, :HOST, :VIA, :NETWORKS, :HOSTS, :PROTOCOLS,
        :HASH_BY, :LOAD, :HEALTH, :LOG, :OPTIONS, :POOL, :UPSTREAM

      attr_reader(*OPTIONS.keys)

      # @return [Accel, nil]
      attr_reader :accel
      # @return [Hash{Symbol=>Object}] options of each pool
      attr_reader :pool
      # @return [Hash{Symbol=>Object}] options of each upstream that is given as a String
      attr_reader :upstream

      # @param accel_roots [Hash{String=>String}, Array<String>, nil] folders of which upstreams may name files
      # @param options [Hash{Symbol=>Object}] see docs/proxy.md
      # @raise [ConfigurationError]
      def initialize(accel_roots: nil, **options)
        refuse_unknown(options)
        OPTIONS.each do |name, (type, default)|
          instance_variable_set(:"@#{name}", type.setting(options.fetch(name, default)) { "#{name}:" })
        end
        @accel = Accel.new(accel_roots) if accel_roots
        @pool = options.slice(*POOL)
        @upstream = options.slice(*UPSTREAM)
        return unless @longest_out < @out_for
        raise ConfigurationError, "longest_out: #{@longest_out} is less than out_for: #{@out_for}. Raise it"
      end

      # @return [LeastRequests, ConsistentHash]
      def policy = (@balance == :hash) ? ConsistentHash.new(@hash_by, load: @hash_load) : LeastRequests.new

      private

      def refuse_unknown(options)
        known = OPTIONS.keys + POOL + UPSTREAM
        unknown = options.keys.find { |name| !known.include?(name) } or return
        raise ConfigurationError, "NeverBlock::Proxy has no option #{unknown.inspect}. " \
          "Its options are #{[*known, :accel_roots].join(", ")}"
      end
    end
  end
end

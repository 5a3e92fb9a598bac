# frozen_string_literal: true

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # All other methods of a PG::Connection. Those that depend only on the server use any real connection. COPY uses a
      # lease. The rest get the real connection in hands, which taints their lease.
      module Delegation
        # Methods with the same result on each connection.
        COMMON = %i[
          conninfo conninfo_hash conndefaults connection_needs_password connection_used_password db escape
          escape_identifier escape_literal escape_string escape_bytea unescape_bytea full_protocol_version host
          hostaddr options pass port protocol_version quote_ident server_version ssl_attribute ssl_attribute_names
          ssl_attributes ssl_in_use? tty user make_empty_pgresult get_client_encoding external_encoding
          internal_encoding
        ].freeze

        # Settings that these methods depend on, and that a lease may have changed.
        READING = %w[client_encoding standard_conforming_strings].freeze

        # Methods that need a lease, and don't taint it.
        COPYING = %i[copy_data get_copy_data async_get_copy_data sync_get_copy_data put_copy_data async_put_copy_data
          sync_put_copy_data put_copy_end async_put_copy_end sync_put_copy_end].freeze

        # The same, and they need a session: behind a pooler a connection has no process or notifications of its own.
        SESSION = %i[backend_pid wait_for_notify async_wait_for_notify sync_wait_for_notify notifies_wait
          notifies].freeze

        # Methods whose effect lasts until the next query.
        PARTIAL = %i[set_single_row_mode set_chunked_rows_mode].freeze

        # Methods that work on the virtual connection itself.
        OWN = %i[type_map_for_queries type_map_for_queries= type_map_for_results type_map_for_results= field_name_type
          field_name_type= transaction encoder_for_put_copy_data encoder_for_put_copy_data= decoder_for_get_copy_data
          decoder_for_get_copy_data=].freeze

        available = PG::Connection.instance_methods(false)

        (COMMON & available).each do |name|
          define_method(name) do |*arguments|
            next @lease.native_or_not { |pg| pg.public_send(name, *arguments) } if @lease
            @multiplexer.sample(@session_defaults, settings: READING) { |pg| pg.public_send(name, *arguments) }
          end
        end

        ((COPYING + SESSION) & available).each do |name|
          session = (name.to_s if SESSION.include?(name))
          define_method(name) do |*arguments, &block|
            lease = leased(name.to_s, session:)
            lease.leave_state(name.to_s)
            @wrote = true unless session # a COPY may write
            in_hand(lease) { |pg| pg.public_send(name, *arguments, &block) }
          end
        end

        (available - COMMON - COPYING - SESSION - OWN - LocalResults.instance_methods - %i[
          exec async_exec sync_exec query async_query exec_params async_exec_params sync_exec_params prepare
          async_prepare sync_prepare exec_prepared async_exec_prepared sync_exec_prepared close_prepared
          async_close_prepared sync_close_prepared describe_prepared async_describe_prepared sync_describe_prepared
        ]).each do |name|
          define_method(name) do |*arguments, &block|
            lease = leased(name.to_s, session: name.to_s)
            lease.leave_state(name.to_s)
            lease.taint
            lease.connection.partial! if PARTIAL.include?(name)
            in_hand(lease) { |pg| pg.public_send(name, *arguments, &block) }
          end
        end

        private

        # @yieldparam pg [PG::Connection] the real one, with the type maps of this one
        def in_hand(lease)
          handed(lease) { |pg| yield pg }
        rescue PG::Error => error
          raise own(error)
        end

        def handed(lease)
          return lease.native(@notices) { |pg| yield pg } if lease.in_turn? # a nested call: the type maps are set
          go_on_failed(lease) if lease.unbegun?
          lease.native(@notices) do |pg|
            send_opening(pg)
            dress(pg)
            yield pg
          ensure
            undress(pg) unless lease.tainted?
          end
        end

        def dress(pg)
          pg.type_map_for_results = @connection.type_map_for_results
          pg.type_map_for_queries = @connection.type_map_for_queries
          pg.encoder_for_put_copy_data = @connection.encoder_for_put_copy_data
          pg.decoder_for_get_copy_data = @connection.decoder_for_get_copy_data
        end

        def undress(pg)
          return if pg.finished?
          pg.type_map_for_results = PG::TypeMapAllStrings.new
          pg.type_map_for_queries = PG::TypeMapAllStrings.new
          pg.encoder_for_put_copy_data = pg.decoder_for_get_copy_data = nil
        end
      end
    end
  end
end

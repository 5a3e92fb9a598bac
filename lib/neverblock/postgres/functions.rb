# frozen_string_literal: true

module NeverBlock
  class Postgres
    # PostgreSQL's own functions that a shared statement may call. They neither change nor depend on anything in which
    # two connections with the same session defaults could differ, don't write, lock, signal, read files, or run SQL.
    #
    #   Functions.listed(15).include?("lower")        # => true
    #   Functions.listed(15).include?("set_config")   # => false
    #   Functions.listed(15).include?("uuidv7")       # => false: it is built in from 18 on, on 15 it is a user's
    #
    # How the list was made: the functions of the manual's chapter "Functions and Operators", and those that the schema
    # queries of Active Record and Sequel call, if pg_proc declares all their forms immutable or stable. Left out are
    # those that read session state (current_setting, pg_backend_pid, inet_client_port, pg_my_temp_schema,
    # pg_listening_channels, txid_current), run SQL (query_to_xml and the like, ts_stat, ts_rewrite), count in the
    # session's statistics (pg_stat_get_…), or are for superusers only. {VOLATILE} has the exceptions, with reasons. A
    # test compares all of it with the pg_proc of the present server.
    module Functions
      # By the server version that has added them. On an older server a function of that name is the user's.
      SINCE = {
        14 => %w[
          array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist dense_rank
          every first_value json_agg json_object_agg jsonb_agg jsonb_object_agg lag last_value lead max min mode
          nth_value ntile percent_rank percentile_cont percentile_disc range_agg range_intersect_agg rank regr_avgx
          regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number stddev
          stddev_pop stddev_samp string_agg sum var_pop var_samp variance xmlagg

          abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd cosh cot cotd
          degrees div exp factorial floor gcd lcm ln log log10 min_scale mod pi pow power radians round scale sign sin
          sind sinh sqrt tan tand tanh trim_scale trunc width_bucket

          ascii bit_count bit_length btrim char_length character_length chr concat concat_ws convert convert_from
          convert_to decode encode format get_bit get_byte initcap is_normalized left length like lower lpad ltrim md5
          normalize notlike octet_length overlay parse_ident position quote_ident quote_literal quote_nullable
          regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table repeat replace reverse
          right rpad rtrim set_bit set_byte sha224 sha256 sha384 sha512 split_part starts_with string_to_array
          string_to_table strpos substr substring to_ascii to_char to_date to_hex to_number translate unistr upper
          hashtext hashtextextended

          age date_bin date_part date_trunc extract isfinite justify_days justify_hours justify_interval make_date
          make_interval make_time make_timestamp make_timestamptz now overlaps statement_timestamp timezone to_timestamp
          transaction_timestamp

          bool box bpchar cidr circle date float4 float8 int2 int4 int8 interval line lseg macaddr macaddr8 money name
          numeric oid path point polygon regclass text time timestamp timestamptz timetz varbit varchar xml

          array_to_json json_array_elements json_array_elements_text json_array_length json_build_array
          json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
          json_object_keys json_populate_record json_populate_recordset json_strip_nulls json_to_record
          json_to_recordset json_typeof jsonb_array_elements jsonb_array_elements_text jsonb_array_length
          jsonb_build_array jsonb_build_object jsonb_concat jsonb_contained jsonb_contains jsonb_delete
          jsonb_delete_path jsonb_each jsonb_each_text jsonb_exists jsonb_exists_all jsonb_exists_any
          jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_keys jsonb_path_exists
          jsonb_path_exists_tz jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array
          jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz jsonb_path_query_tz
          jsonb_populate_record jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls
          jsonb_to_record jsonb_to_recordset jsonb_typeof row_to_json to_json to_jsonb

          array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position
          array_positions array_prepend array_remove array_replace array_to_string array_upper arraycontained
          arraycontains arrayoverlap cardinality generate_series generate_subscripts num_nonnulls num_nulls trim_array
          unnest

          datemultirange daterange enum_first enum_last enum_range int4multirange int4range int8multirange int8range
          isempty lower_inc lower_inf multirange nummultirange numrange range_merge tsmultirange tsrange tstzmultirange
          tstzrange upper_inc upper_inf

          array_to_tsvector get_current_ts_config json_to_tsvector jsonb_to_tsvector numnode phraseto_tsquery
          plainto_tsquery querytree setweight strip to_tsquery to_tsvector ts_delete ts_filter ts_headline ts_lexize
          ts_parse ts_rank ts_rank_cd ts_token_type tsquery_phrase tsvector_to_array websearch_to_tsquery

          abbrev area bound_box broadcast center diagonal diameter family height host hostmask inet_merge
          inet_same_family isclosed isopen macaddr8_set7bit masklen netmask network npoints pclose popen radius
          set_masklen slope width

          xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document xmlcomment xpath xpath_exists

          col_description current_database current_schema current_schemas format_type getdatabaseencoding
          has_any_column_privilege has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege
          has_function_privilege has_language_privilege has_schema_privilege has_sequence_privilege has_server_privilege
          has_table_privilege has_tablespace_privilege has_type_privilege obj_description pg_char_to_encoding
          pg_collation_for pg_collation_is_visible pg_column_size pg_conf_load_time pg_conversion_is_visible
          pg_current_snapshot pg_describe_object pg_encoding_to_char pg_function_is_visible pg_get_constraintdef
          pg_get_expr pg_get_function_arg_default pg_get_function_arguments pg_get_function_identity_arguments
          pg_get_function_result pg_get_functiondef pg_get_indexdef pg_get_keywords pg_get_partition_constraintdef
          pg_get_partkeydef pg_get_replica_identity_index pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef
          pg_get_statisticsobjdef_columns pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role
          pg_identify_object pg_index_column_has_property pg_index_has_property pg_indexam_has_property
          pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible pg_options_to_table pg_partition_root
          pg_postmaster_start_time pg_relation_is_updatable pg_sequence_parameters pg_size_bytes pg_size_pretty
          pg_snapshot_xip pg_snapshot_xmax pg_snapshot_xmin pg_statistics_obj_is_visible pg_table_is_visible
          pg_tablespace_databases pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible
          pg_ts_template_is_visible pg_type_is_visible pg_typeof pg_visible_in_snapshot pg_wal_lsn_diff
          shobj_description to_regclass to_regcollation to_regnamespace to_regoper to_regoperator to_regproc
          to_regprocedure to_regrole to_regtype version
],
        15 => %w[has_parameter_privilege regexp_count regexp_instr regexp_like regexp_substr],
        16 => %w[any_value array_sample array_shuffle date_add date_subtract erf erfc pg_input_is_valid random_normal],
        17 => %w[
          pg_basetype to_bin to_oct to_regtypemod unicode_assigned unicode_version uuid_extract_timestamp
          uuid_extract_version xmltext
        ],
        18 => %w[array_reverse array_sort casefold crc32 crc32c gamma lgamma uuidv4 uuidv7]
      }.transform_values(&:freeze).freeze

      clock = "reads the clock"
      sizes = "looks at the sizes of files"
      replication = "looks at the state of the whole server"
      # Functions that are listed although pg_proc declares them volatile, with the reason.
      VOLATILE = {
        "clock_timestamp" => clock, "timeofday" => clock,
        "pg_sleep" => "waits", "pg_sleep_for" => "waits", "pg_sleep_until" => "waits",
        "random" => "moves a seed on that nothing but setseed could set", "gen_random_uuid" => "chance from the system",
        "pg_database_size" => sizes, "pg_indexes_size" => sizes, "pg_relation_size" => sizes, "pg_table_size" => sizes,
        "pg_tablespace_size" => sizes, "pg_total_relation_size" => sizes,
        "pg_partition_ancestors" => "reads the catalog", "pg_partition_tree" => "reads the catalog",
        "pg_is_in_recovery" => replication, "pg_current_wal_flush_lsn" => replication,
        "pg_current_wal_insert_lsn" => replication, "pg_current_wal_lsn" => replication,
        "pg_last_wal_receive_lsn" => replication, "pg_last_wal_replay_lsn" => replication,
        "pg_last_xact_replay_timestamp" => replication
      }.freeze

      # The same, of functions that {SINCE} lists for later versions.
      LATER_VOLATILE = %w[array_sample array_shuffle random_normal uuidv4 uuidv7].freeze

      # Functions that a statement alone may call too.
      WRITING = %w[nextval pg_notify setval].to_h { |name| [name, true] }.freeze

      # Functions whose effect ends with the transaction, or with the statement if there's none. It runs alone.
      TRANSACTIONAL = %w[
        pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared
        pg_current_xact_id pg_current_xact_id_if_assigned txid_current txid_current_if_assigned
      ].to_h { |name| [name, true] }.freeze

      # Functions that read session state and leave none.
      LOOKING = %w[current_setting].to_h { |name| [name, true] }.freeze

      # Functions that leave or read session state: naming them in shareable_functions is an error.
      KEEPS_STATE = /\A(
        set_config|setseed|currval|lastval|pg_(try_)?advisory_|pg_export_snapshot|pg_replication_origin_|
        lo_|loread\z|lowrite\z|dblink
      )/x

      # Of these, and of other functions that do more than read, those with one argument: they can be called as columns.
      ATTRIBUTES = /\A(?:
        setseed|currval|nextval|ts_stat|lo_(?:close|creat|create|get|import|tell|tell64|unlink)|
        binary_upgrade_\w+|brin_summarize_new_values|gin_clean_pending_list|
        pg_(?:try_)?advisory_(?:xact_)?(?:un)?lock(?:_shared)?|
        pg_(?:cancel|terminate)_backend|pg_log_backend_memory_contexts|pg_promote|
        pg_(?:read_file|read_binary_file|ls_dir|ls_tmpdir|ls_replslotdir|stat_file|current_logfile)|
        pg_stat_(?:get_xact|reset)_\w+|pg_import_system_collations|pg_create_restore_point|
        pg_(?:backup_start|backup_stop|start_backup|stop_backup)|pg_(?:create_physical|drop)_replication_slot|
        pg_replication_origin_(?:create|drop|session_setup|session_progress)
      )\z/x

      # @param version [Integer] the server's major version
      # @return [Hash{String=>true}] the names, without schema
      def self.listed(version)
        names = VOLATILE.keys + SINCE.flat_map { |since, list| (since <= version) ? list : [] }
        names.to_h { |name| [name, true] }.freeze
      end
    end
  end
end

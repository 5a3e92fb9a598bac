# frozen_string_literal: true

module NeverBlock
  class MySQL
    # Built-in functions of both MySQL 5.7 and MariaDB 10.3 that neither leave nor read session state. Others are taken
    # for a user's, which may do anything.
    #
    #   Functions::HARMLESS["lower"]             # => true
    #   Functions::RESIDUE["last_insert_id"]     # => true: it reads what earlier statements have left
    module Functions
      HARMLESS = %w[
        abs acos adddate addtime aes_decrypt aes_encrypt ascii asin atan atan2 avg bin bit_and bit_count bit_length
        bit_or bit_xor cast ceil ceiling char_length character_length charset coalesce coercibility collation compress
        concat concat_ws connection_id conv convert convert_tz cos cot count crc32 curdate current_date current_time
        current_timestamp current_user curtime database date date_add date_format date_sub datediff day dayname
        dayofmonth dayofweek dayofyear degrees elt exp export_set extract extractvalue field find_in_set floor format
        from_base64 from_days from_unixtime get_format greatest group_concat hex hour if ifnull inet6_aton inet6_ntoa
        inet_aton inet_ntoa instr is_free_lock is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_used_lock isnull
        json_array json_array_append json_array_insert json_arrayagg json_contains json_contains_path json_depth
        json_extract json_insert json_keys json_length json_merge json_merge_patch json_merge_preserve json_object
        json_objectagg json_quote json_remove json_replace json_search json_set json_type json_unquote json_valid
        json_value last_day lcase least length ln localtime localtimestamp locate log log10 log2 lower lpad ltrim
        make_set makedate maketime max md5 microsecond mid min minute mod month monthname now nullif oct octet_length
        ord period_add period_diff pi position pow power quarter quote radians rand random_bytes repeat reverse round
        rpad rtrim schema sec_to_time second session_user sha sha1 sha2 sign sin sleep soundex space sqrt std stddev
        stddev_pop stddev_samp str_to_date strcmp subdate substr substring substring_index subtime sum sysdate
        system_user tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_days
        to_seconds trim truncate ucase uncompress uncompressed_length unhex unix_timestamp updatexml upper user
        utc_date utc_time utc_timestamp uuid uuid_short var_pop var_samp variance version week weekday weekofyear
        weight_string year yearweek

        row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value

        st_area st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_buffer st_centroid st_contains st_convexhull
        st_crosses st_difference st_dimension st_disjoint st_distance st_distance_sphere st_endpoint st_envelope
        st_equals st_exteriorring st_geometryn st_geometrytype st_geomfromgeojson st_geomfromtext st_geomfromwkb
        st_interiorringn st_intersection st_intersects st_isclosed st_isempty st_issimple st_length st_numgeometries
        st_numinteriorrings st_numpoints st_overlaps st_pointn st_srid st_startpoint st_symdifference st_touches
        st_union st_within st_x st_y mbrcontains mbrequal mbrintersects mbroverlaps mbrwithin point linestring polygon
      ].to_h { |name| [name, true] }.freeze

      # They read what earlier statements of their session have left.
      RESIDUE = %w[last_insert_id found_rows row_count].to_h { |name| [name, true] }.freeze

      # System variables that do. All others are the same on each connection without session state.
      RESIDUE_VARIABLES = %w[
        error_count identity in_transaction insert_id last_gtid last_insert_id profiling_history_size pseudo_thread_id
        rand_seed1 rand_seed2 timestamp tx_isolation_next warning_count
      ].to_h { |name| [name, true] }.freeze

      # These act even where no statement of a user's is: in a column's default, or in an index.
      ACTING = %w[get_lock release_lock release_all_locks last_insert_id nextval setval lastval].to_h do |name|
        [name, true]
      end.freeze
    end
  end
end

package indextables.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Values between Java and Python. JSON, because what Python reads of a collection one by one takes a call each. */
final class Texts {
    private static final int MOST_SCHEMAS = 64;
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Map SCHEMAS = Collections.synchronizedMap(new LinkedHashMap(16, 0.75f, true) {
        protected boolean removeEldestEntry(Map.Entry eldest) {
            return size() > MOST_SCHEMAS;
        }
    });

    /** What Python answers, unless that is the text of an error. */
    static Object checked(Object answer) {
        if (answer instanceof String) throw new IllegalArgumentException((String) answer);
        return answer;
    }

    static String json(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A schema. Spark takes long to read one, and most queries are of columns that others were of. */
    static StructType schema(String json) {
        StructType known = (StructType) SCHEMAS.get(json);
        if (known == null) {
            known = (StructType) DataType.fromJson(json);
            SCHEMAS.put(json, known);
        }
        return known;
    }

    /** An object of JSON, as the bytes of its text. */
    static Map map(Object bytes) {
        return (Map) read((byte[]) bytes, Map.class);
    }

    /** An array of JSON, as the bytes of its text. */
    static List list(Object bytes) {
        return (List) read((byte[]) bytes, List.class);
    }

    private static Object read(byte[] bytes, Class kind) {
        try {
            return MAPPER.readValue(bytes, kind);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
